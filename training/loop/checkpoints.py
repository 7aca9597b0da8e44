"""Trained models in files, and files from which an interrupted run goes on."""

import time
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from training.files.errors import InputError, first_line, values_of
from training.files.folder import check_numbers
from training.files.writing import atomic_write, sha256_of
from training.loop.processes import gather, rank, world_size


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
        why = "it is damaged, or holds more than tensors and plain values"
        raise InputError(f"{path} is not a checkpoint: {why}; delete it and train again") from error


def save_model(model: nn.Module, optimizer, args, config, filepath: str | Path) -> None:
    """Save model, optimizer, flags and configuration, atomically, as tensors and plain values."""
    states = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    values = {"args": vars(args), "config": vars(config), "kind": type(model).__name__}
    save_checkpoint(filepath, states | values)
    print(f"saved the model to {filepath}")


def restore_model(
    filepath: str | Path, device: torch.device, kind: type[nn.Module]
) -> tuple[nn.Module, SimpleNamespace]:
    """The model of that class that save_model wrote, in evaluation mode, and its configuration."""
    saved = load_checkpoint(filepath)
    if not isinstance(saved, dict) or saved.get("kind") != kind.__name__:
        raise InputError(f"{filepath} is not a checkpoint of a {kind.__name__}; train again")
    config = SimpleNamespace(**saved["config"])
    model = kind(config)
    what = f"the tensors of a {kind.__name__} on {getattr(config, 'model', None)}"
    with values_of(f"{filepath} does not hold {what}", "train again"):
        check_numbers(f"{filepath}:", saved["model"])
        model.load_state_dict(saved["model"])
    return model.to(device).eval(), config


def resume_path(filepath: str | Path) -> Path:
    """The file that an interrupted run goes on from, next to its checkpoint's place."""
    return Path(filepath).with_suffix(".resume")


class ResumePoint:
    """A file from which an interrupted run goes on as if it had never stopped.

    It holds the states of the run's parts and of random numbers, where the run is, and what has to
    be the same for it to go on: flags (unless ``may_change``), and contents of files.

    Args:
        args: the flags; the file is next to ``args.filepath``.
        seconds: how often it is written.
        parts: by name, what has state_dict and load_state_dict.
    """

    def __init__(self, args: Any, seconds: float = 60.0, **parts: Any):
        self.path, self.parts = resume_path(args.filepath), parts
        self.seconds, self.written = seconds, time.monotonic()
        self.settings = {"processes": world_size()}
        for name in (flag.name for flag in fields(args) if not flag.metadata.get("may_change")):
            value = getattr(args, name)
            is_file = isinstance(value, (str, Path)) and Path(value).is_file()
            self.settings[name] = sha256_of(value) if is_file else value

    def due(self) -> bool:
        """Whether the last write was long enough ago."""
        return time.monotonic() - self.written >= self.seconds

    def write(self, position: dict[str, Any]) -> None:
        """Write everything; ``position`` is plain values of the caller's."""
        random = {"cpu": torch.get_rng_state()}
        if torch.cuda.is_available():
            random["cuda"] = torch.cuda.get_rng_state()
        states = {name: part.state_dict() for name, part in self.parts.items()}
        states |= {"random": gather(random), "position": position, "settings": self.settings}
        save_checkpoint(self.path, states)
        self.written = time.monotonic()

    def read(self) -> dict[str, Any] | None:
        """Put a run's parts back where they were; → its position, None if there is no file.

        Raises InputError if the file is damaged or belongs to a run with other settings.
        """
        if not self.path.is_file():
            print(f"--resume: there is no {self.path} yet; this run begins at the beginning")
            return None
        saved, remedy = load_checkpoint(self.path), "run without --resume, or with the old flags"
        with values_of(f"cannot resume from {self.path}", remedy):
            for key, new in self.settings.items():
                if (old := saved["settings"].get(key)) != new:
                    raise ValueError(f"it belongs to a run with {key}={old!r}, not {new!r}")
            for name, part in self.parts.items():
                part.load_state_dict(saved[name])
            random, position = saved["random"][rank()], saved["position"]
        torch.set_rng_state(random["cpu"])
        if "cuda" in random and torch.cuda.is_available():
            torch.cuda.set_rng_state(random["cuda"])
        return position
