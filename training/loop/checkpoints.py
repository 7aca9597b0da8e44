"""Trained models in files, and files from which an interrupted run goes on.

It does not know what a run counts or how a model is trained.
"""

from __future__ import annotations

import copy
import json
import pickle
import signal
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from training.files.errors import InputError, Stopped, first_line
from training.files.weights import check_numbers
from training.files.writing import atomic_write, sha256_of, write_json
from training.loop.devices import device_fault
from training.loop.processes import any_process, is_main_process, rank, world_size

# ---------------------------------------------------------------------------------------------
# Trained models


def save_checkpoint(path: str | Path, checkpoint: dict[str, Any]) -> None:
    """Save tensors and plain values with torch.save, atomically."""
    with atomic_write(path, "wb") as file:
        try:
            torch.save(checkpoint, file)
        except RuntimeError as error:  # torch's writer reports a full disk this way
            if device_fault(error):
                raise
            raise OSError(None, first_line(error)) from error


def load_checkpoint(path: str | Path) -> dict[str, Any]:
    """Load what save_checkpoint wrote onto the CPU; nothing in it can run code."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"no checkpoint at {path}: train first, or name another")
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises half a dozen types for damaged files
        reason = first_line(error)
        if isinstance(error, pickle.UnpicklingError):  # whose text advises to trust the file
            reason = "it is truncated, or holds more than tensors and plain values"
            with open(path, "rb") as file:
                if not file.read(4).startswith((b"PK", b"\x80")):  # of a zip file, of a pickle
                    reason = "torch.save does not write such files"
        raise InputError(f"{path} is not a checkpoint or is damaged: {reason}") from error


def save_model(model: nn.Module, optimizer, args, config, filepath: str | Path) -> None:
    """Save model, optimizer, flags and configuration, atomically, as tensors and plain values."""
    save_checkpoint(
        filepath,
        {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "args": vars(args),
            "config": vars(config),
        },
    )
    print(f"saved the model to {filepath}")


def restore_model(
    filepath: str | Path,
    device: torch.device,
    build: Callable[[SimpleNamespace], nn.Module],
    *,
    script: str,
    is_ours: Callable[[dict], bool],
) -> tuple[nn.Module, SimpleNamespace]:
    """The model that save_model wrote, in evaluation mode, and its configuration.

    Args:
        build: makes a new model of a configuration.
        script: the one that trains it, for error messages.
        is_ours: whether a checkpoint's configuration is of such a model.

    Raises:
        InputError: no such file, not a checkpoint of the script, or other tensors than the model's.
    """
    saved = load_checkpoint(filepath)
    values = saved.get("config") if isinstance(saved, dict) else None
    if (
        not isinstance(values, dict)
        or not {"option", "hidden_size", "hidden_dropout_prob"} <= values.keys()
        or not is_ours(values)
        or not isinstance(saved.get("model"), dict)
    ):
        raise InputError(f"{filepath} is not a checkpoint of {script}; train again")
    config = SimpleNamespace(**values)
    model = build(config)
    check_numbers(f"{filepath}:", saved["model"])
    try:
        model.load_state_dict(saved["model"])
    except RuntimeError as error:
        raise InputError(
            f"{filepath} does not hold the tensors of a {type(model).__name__} on "
            f"{values.get('model') or 'the default model'}; train again"
        ) from error
    return model.to(device).eval(), config


# ---------------------------------------------------------------------------------------------
# Interrupted runs

FORMAT = 3  # of resume files


def run_settings(args: Any) -> dict[str, Any]:
    """What has to be the same for a run to be resumed: its flags, and what the files hold it reads.

    Args:
        args: a dataclass of flags; a flag's metadata say whether a resumed run may change it.
    """
    plain = (bool, int, float, str, list, tuple, type(None))
    settings = {}
    for setting in fields(args):
        value = getattr(args, setting.name)
        if setting.metadata.get("may_change", True) or not isinstance(value, plain):
            continue
        if setting.metadata["path"] and value and Path(value).is_file():
            value = sha256_of(value)
        settings[setting.name] = value
    return settings


def resume_path(filepath: str | Path) -> Path:
    """The file that an interrupted run goes on from, next to its checkpoint's place."""
    return Path(filepath).with_suffix(".resume")


def end_run(point: Path, prefix: str) -> None:
    """Mark a run's metrics.json, behind this prefix, as final, and remove its resume point."""
    metrics = Path(f"{prefix}metrics.json")
    if metrics.is_file():
        write_json(metrics, json.loads(metrics.read_text(encoding="utf-8")) | {"ended": True})
    point.unlink(missing_ok=True)


def has_ended(point: Path, prefix: str, args: Any) -> bool:
    """Whether --resume asks for a run that has come to its end, which a line says.

    Raises:
        InputError: the run that has ended there had other settings; its results would be lost.
    """
    metrics = Path(f"{prefix}metrics.json")
    if not args.resume or point.is_file() or not metrics.is_file():
        return False
    theirs = copy.copy(args)
    saved = json.loads(metrics.read_text(encoding="utf-8"))
    vars(theirs).update(saved.get("args", {}))
    if not saved.get("ended") or vars(theirs).get("filepath") != vars(args).get("filepath"):
        return False
    ours, before = (json.loads(json.dumps(run_settings(x), default=str)) for x in (args, theirs))
    different = sorted(key for key in ours.keys() & before if ours[key] != before[key])
    if different:
        key = different[0]
        raise InputError(
            f"--resume: the run of {metrics} has ended, with {key}={before[key]!r}; this one has "
            f"{ours[key]!r}; run without --resume to start over"
        )
    if is_main_process():
        print(f"--resume: the run of {metrics} has ended and stays as it is")
    return True


class ResumePoint:
    """A file from which an interrupted run goes on as if it had never stopped.

    It holds model, optimizer, random states, the position in the epoch and the run's settings, as
    tensors and plain values; it is written aside and renamed, so that the last good one survives a
    crash at any moment.

    Args:
        path: of the file.
        settings: what has to be the same for a run to go on: flags, sizes, hashes.
        seconds: how often ``due`` says that it is time to write.
    """

    def __init__(self, path: str | Path, settings: dict[str, Any], seconds: float = 60.0):
        self.path = Path(path)
        self.settings = settings | {"processes": world_size(), "format": FORMAT}
        self.seconds = seconds
        self.written = time.monotonic()

    def due(self) -> bool:
        """Whether the last write was long enough ago."""
        return time.monotonic() - self.written >= self.seconds

    def write(self, model: nn.Module, optimizer: Optimizer, position: dict[str, Any]) -> None:
        """Write everything; ``position`` is plain values of the caller's."""
        random_states = [_random_state()]
        if world_size() > 1:
            random_states *= world_size()
            dist.all_gather_object(random_states, _random_state())
        save_checkpoint(
            self.path,
            {
                "settings": self.settings,
                "position": position,
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "random": random_states,
            },
        )
        self.written = time.monotonic()

    def read(self, model: nn.Module, optimizer: Optimizer) -> dict[str, Any] | None:
        """Put a run back where it was and return its position; None if there is no file.

        Raises InputError if the file is damaged or belongs to a run with other settings. What
        killed runs left half written is removed.
        """
        for left in self.path.parent.glob(".*.part"):
            if left.name.startswith(f".{self.path.stem}.") and is_main_process():
                left.unlink()
        if not self.path.is_file():
            if is_main_process():
                print(f"--resume: there is no {self.path} yet; this run begins at the beginning")
            return None
        start_over = "run without --resume to start over"
        try:
            saved = load_checkpoint(self.path)
            theirs, ours = saved["settings"], self.settings
            different = sorted(
                key for key in theirs.keys() | ours if theirs.get(key) != ours.get(key)
            )
            if different:
                key, start_over = different[0], f"{start_over}, or with the old flags"
                raise InputError(
                    f"it belongs to a run with {key}={theirs.get(key)!r}, this one has "
                    f"{ours.get(key)!r} (settings that differ: {', '.join(different)})"
                )
            model.load_state_dict(saved["model"])
            optimizer.load_state_dict(saved["optimizer"])
        except (RuntimeError, ValueError, KeyError, TypeError) as error:
            reason = first_line(error)
            raise InputError(f"cannot resume from {self.path}: {reason}; {start_over}") from error
        random_state = saved["random"][rank()]
        torch.set_rng_state(random_state["cpu"])
        if "cuda" in random_state and torch.cuda.is_available():
            torch.cuda.set_rng_state(random_state["cuda"])
        return saved["position"]


def _random_state() -> dict[str, Tensor]:
    state = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


class StopRequest:
    """Ctrl-C asks for a stop at the end of the current step; a second one stops at once.

    Used as ``with StopRequest() as stop: … stop.leave_if_asked(point)``
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self):
        self.asked = False

    def __enter__(self) -> StopRequest:
        self.before = {sig: signal.signal(sig, self._ask) for sig in self.SIGNALS}
        return self

    def __exit__(self, *error: object) -> None:
        for sig, handler in self.before.items():
            signal.signal(sig, handler)

    def _ask(self, number: int, frame: object) -> None:
        if self.asked and world_size() == 1:  # torchrun passes a signal on: all get it twice
            raise KeyboardInterrupt
        self.asked = True
        print("\nstopping after this step (once more to stop at once)", flush=True)

    def leave_if_asked(self, point: ResumePoint) -> None:
        """Raise Stopped, which says how to go on, if a stop was asked for in any process."""
        if any_process(self.asked):
            raise Stopped(f"stopped; --resume goes on from {point.path}")
