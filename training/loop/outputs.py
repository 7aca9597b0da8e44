"""The files that runs write: none is an input or a folder, and no other process writes them."""

import fcntl
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from training.files.errors import InputError
from training.files.writing import check_writable
from training.loop.checkpoints import resume_path
from training.loop.processes import is_main_process, on_main_process

REPORTS = ("metrics.json", "steps.csv", "report.html")  # of a run, next to its predictions


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


def check_outputs(runs: Sequence[Any], more: Iterable[str | Path]) -> None:
    """InputError where an output, of a flag or one more, is a folder, another one, or an input."""
    flags = [flag for run in runs for flag in vars(run).items()]
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
def locked(stem: str | Path) -> Iterator[None]:
    """Hold the lock on files whose names begin like that, until this process ends in any way."""
    path = Path(f"{stem}.lock")
    with open(path, "w", encoding="utf-8") as file:
        try:  # this kind of lock is not passed on to the processes that a loader starts
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
