"""Trained models in files, and files from which an interrupted run goes on."""

import time
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from training.files.errors import InputError, first_line
from training.files.weights import check_numbers
from training.files.writing import atomic_write, sha256_of
from training.loop.processes import gather, is_main_process, rank, world_size


def save_checkpoint(path: str | Path, checkpoint: dict[str, Any]) -> None:
    """Save tensors and plain values with torch.save, atomically."""
    with atomic_write(path, "wb") as file:
        try:
            torch.save(checkpoint, file)
        except RuntimeError as error:  # torch's writer reports a full disk this way
            raise OSError(None, first_line(error)) from error


def load_checkpoint(path: str | Path) -> dict[str, Any]:
    """Load what save_checkpoint wrote onto the CPU; nothing in it can run code."""
    if not Path(path).is_file():
        raise InputError(f"no checkpoint at {path}: train first, or name another")
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises half a dozen types; one advises to trust the file
        raise InputError(
            f"{path} is not a checkpoint: torch.save did not write it, it is damaged, or it holds "
            "more than tensors and plain values"
        ) from error


def save_model(model: nn.Module, optimizer, args, config, filepath: str | Path) -> None:
    """Save model, optimizer, flags and configuration, atomically, as tensors and plain values."""
    states = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    values = {"args": kept(args), "config": vars(config), "kind": type(model).__name__}
    save_checkpoint(filepath, states | values)
    print(f"saved the model to {filepath}")


def kept(args: Any) -> dict[str, Any]:
    """The flags that a run's files keep: not --resume, so that those of a resumed run are alike."""
    return {name: value for name, value in vars(args).items() if name != "resume"}


def restore_model(
    filepath: str | Path, device: torch.device, kind: type[nn.Module]
) -> tuple[nn.Module, SimpleNamespace]:
    """The model of that class that save_model wrote, in evaluation mode, and its configuration."""
    saved = load_checkpoint(filepath)
    if not isinstance(saved, dict) or saved.get("kind") != kind.__name__:
        raise InputError(f"{filepath} is not a checkpoint of a {kind.__name__}; train again")
    config = SimpleNamespace(**saved["config"])
    model = kind(config)
    try:
        check_numbers(f"{filepath}:", saved["model"])
        model.load_state_dict(saved["model"])
    except (RuntimeError, KeyError, AttributeError, TypeError) as error:
        raise InputError(
            f"{filepath} does not hold the tensors of a {kind.__name__} on "
            f"{getattr(config, 'model', None) or 'the default model'}; train again"
        ) from error
    return model.to(device).eval(), config


# ---------------------------------------------------------------------------------------------
# Interrupted runs


def run_settings(args: Any) -> dict[str, Any]:
    """What a resumed run may not change: flags (unless ``may_change``), and contents of files."""
    names = [flag.name for flag in fields(args) if not flag.metadata.get("may_change")]
    values = {name: getattr(args, name) for name in names}
    for name, value in values.items():
        if isinstance(value, (str, Path)):
            values[name] = sha256_of(value) if Path(value).is_file() else str(value)
    return values


def resume_path(filepath: str | Path) -> Path:
    """The file that an interrupted run goes on from, next to its checkpoint's place."""
    return Path(filepath).with_suffix(".resume")


class ResumePoint:
    """A file from which an interrupted run goes on as if it had never stopped.

    It holds model, optimizer, random states, the position in the epoch and the run's settings.

    Args:
        settings: what has to be the same for a run to go on: flags, sizes, hashes.
        seconds: how often ``due`` says that it is time to write.
    """

    def __init__(self, path: str | Path, settings: dict[str, Any], seconds: float = 60.0):
        self.path, self.seconds, self.written = Path(path), seconds, time.monotonic()
        self.settings = settings | {"processes": world_size()}

    def due(self) -> bool:
        """Whether the last write was long enough ago."""
        return time.monotonic() - self.written >= self.seconds

    def write(self, model: nn.Module, optimizer: Optimizer, position: dict[str, Any]) -> None:
        """Write everything; ``position`` is plain values of the caller's."""
        random = {"cpu": torch.get_rng_state()}
        if torch.cuda.is_available():
            random["cuda"] = torch.cuda.get_rng_state()
        states = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        states |= {"random": gather(random), "position": position}
        save_checkpoint(self.path, states | {"settings": self.settings})
        self.written = time.monotonic()

    def read(self, model: nn.Module, optimizer: Optimizer) -> dict[str, Any] | None:
        """Put a run back where it was and return its position; None if there is no file.

        Raises InputError if the file is damaged or belongs to a run with other settings.
        """
        if not self.path.is_file():
            if is_main_process():
                print(f"--resume: there is no {self.path} yet; this run begins at the beginning")
            return None
        try:
            saved = load_checkpoint(self.path)
            old, new = saved["settings"], self.settings
            for key in sorted(old.keys() | new):
                if old.get(key) != new.get(key):
                    values = f"{key}={old.get(key)!r}, this one has {new.get(key)!r}"
                    raise InputError(f"it belongs to a run with {values}")
            model.load_state_dict(saved["model"])
            optimizer.load_state_dict(saved["optimizer"])
            random, position = saved["random"][rank()], saved["position"]
        except (RuntimeError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"cannot resume from {self.path}: {first_line(error)}; run without --resume to "
                "start over, or with the old flags"
            ) from error
        torch.set_rng_state(random["cpu"])
        if "cuda" in random and torch.cuda.is_available():
            torch.cuda.set_rng_state(random["cuda"])
        return position
