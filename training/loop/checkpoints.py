"""Trained models in files, files from which an interrupted run goes on, and locks on them."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from training.files.errors import InputError, first_line, values_of
from training.files.folder import check_numbers
from training.files.writing import atomic_write, check_writable, sha256_of
from training.loop.processes import gather, is_main_process, on_main_process, rank, world_size

REPORTS = ("metrics.json", "steps.csv", "report.html")  # of a run, next to its predictions

try:
    import fcntl
except ImportError:  # Windows, where two runs are not kept apart
    fcntl = None


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


def check_outputs(runs: Sequence[Any], more: Iterable[str | Path]) -> None:
    """InputError where an output, of a flag or one more, is a folder, another one, or an input."""
    flags = [(flag.name, getattr(run, flag.name)) for run in runs for flag in fields(run)]
    files = [(name.endswith(("_out", "filepath")), f) for name, f in flags if isinstance(f, str)]
    taken = {Path(f).resolve() for is_output, f in files if not is_output and Path(f).is_file()}
    for file in map(Path, [*(f for is_output, f in files if is_output), *more]):
        if file.is_dir():
            raise InputError(f"{file} is a folder; name a file in it")
        if file.resolve() in taken:
            raise InputError(f"{file} is data, or another output, of this run; name another file")
        if file.is_file() or not file.exists():  # a device may be used twice
            taken.add(file.resolve())
            check_writable(file.parent)


@contextmanager
def sole_run(runs: Sequence[Any], stems: Sequence[str] = ()) -> Iterator[None]:
    """Keep other runs away from the files that these write; their end removes resume points.

    Args:
        runs: the flags of each; a complete run leaves ``filepath``, and no resume point.
        stems: what the names of further files begin with.

    Raises:
        InputError: no such outputs, or another process writes them, or nothing to resume.
    """
    reports = [f"{stem}-{end}" for stem in stems for end in REPORTS]
    points = [resume_path(run.filepath) for run in runs]
    check_outputs(runs, [*points, *reports])
    there = [run.filepath for run in runs if Path(run.filepath).exists()]
    if runs[0].resume and there and not any(point.is_file() for point in points):
        what = f"--resume: {there[0]} is an earlier run's, and there is no {points[0]} to continue"
        raise InputError(f"{what}; without --resume the run begins, and replaces it")
    with ExitStack() as locks:
        places = [*(point.with_suffix("") for point in points), *stems]
        on_main_process(lambda: [locks.enter_context(locked(place)) for place in places])
        yield
        if is_main_process():
            for point in points:
                point.unlink(missing_ok=True)
            if reports:
                print(f"wrote {', '.join(reports)}")


@contextmanager
def locked(stem: str | Path) -> Iterator[None]:
    """Hold the lock on files whose names begin like that, until this process ends in any way."""
    path = Path(f"{stem}.lock")
    with open(path, "w", encoding="utf-8") as file:
        try:
            if fcntl:  # this kind of lock is not passed on to the processes that a loader starts
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            remedy = "wait for its end, or start this one in another folder"
            raise InputError(f"another run is writing {stem}*; {remedy}") from None
        except OSError:  # a file system that has no locks
            pass
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
