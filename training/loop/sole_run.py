"""One run for each set of output files: a second one that is started next to it is refused."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from training.files.errors import InputError, trouble_in_one_line
from training.loop.checkpoints import resume_path
from training.loop.processes import is_main_process, on_main_process

try:
    import fcntl
except ImportError:  # Windows, where two runs are not kept apart
    fcntl = None


@contextmanager
def sole_run(
    args: Any, filepaths: Sequence[str | Path], stems: Iterable[str] = ()
) -> Iterator[None]:
    """Keep other runs away from the files that this one writes; its end removes resume points.

    Args:
        filepaths: what is left by a complete run, with resume points next to it.
        stems: what the names of further files begin with.

    Raises:
        InputError: another process writes these files, or --resume finds those of a complete run.
    """
    points, locks = [resume_path(filepath) for filepath in filepaths], []
    ended = [path for path in filepaths if Path(path).exists()]
    if args.resume and ended and not any(point.is_file() for point in points):
        raise InputError(f"--resume: {ended[0]} exists, so that run has ended; delete it to repeat")

    def take_locks() -> None:
        for path in (*(point.with_suffix("") for point in points), *stems):
            locks.append(locked(Path(f"{path}.lock")))

    try:
        on_main_process(take_locks)
        yield
        for point in points if is_main_process() else ():
            point.unlink(missing_ok=True)
    finally:
        for file in locks:
            Path(file.name).unlink(missing_ok=True)
            file.close()


def locked(path: Path) -> IO[str]:
    """A file that is open and locked until it is closed, or until this process ends in any way."""
    with trouble_in_one_line("choose another place, or free space"):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "w", encoding="utf-8")
    try:
        if fcntl:  # this kind of lock is not passed on to the processes that a loader starts
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        what = f"another run is writing {path.with_suffix('')}*"
        raise InputError(f"{what}; wait for its end, or start this one in another folder") from None
    except OSError:  # a file system that has no locks
        pass
    return file
