"""What may be left of a submission when its processes are gone, and of graders that were killed.

Files that the slot's user put where everybody may write, queues and shared memory, and the staff's
own folders for the sandbox. All of it is removed before a slot is used, and after it.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from course.grading.sandbox.confine import FIRST_USER
from course.grading.sandbox.removal import remove

MOST_SLOTS = 1000  # on a machine
JUST_MADE_S = 1.0  # a folder may not be locked yet
DEPTH = 3  # of folders in which everybody may write, as far as they are looked for
PREFIX = "grading-"  # of folders of ours
IPC_RMID = 0
KINDS = {"shm": ("shmctl", 1), "sem": ("semctl", 2), "msg": ("msgctl", 1)}  # where the command goes


@cache
def shared_places() -> tuple[Path, ...]:
    """The folders of this machine in which everybody may write, POSIX's queues among them."""
    found = {Path(tempfile.gettempdir()): None}
    waiting = [("/", 0)]
    for folder, depth in waiting:  # the list grows while it is read
        with contextlib.suppress(OSError):
            for entry in os.scandir(folder):
                with contextlib.suppress(OSError):
                    if not entry.is_dir(follow_symlinks=False) or entry.path in ("/proc", "/sys"):
                        continue
                    if entry.stat(follow_symlinks=False).st_mode & stat.S_IWOTH:
                        found[Path(entry.path)] = None
                    if depth + 1 < DEPTH:
                        waiting.append((entry.path, depth + 1))
    return tuple(found)


def files_of(slot: int) -> Iterator[Path]:
    """What the slot's user has in folders where everybody may write."""
    if os.geteuid() != 0:
        return
    for folder in shared_places():
        with contextlib.suppress(OSError):
            for entry in os.scandir(folder):
                with contextlib.suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_uid == FIRST_USER + slot:
                        yield Path(entry.path)


def ipc_of(slot: int) -> Iterator[tuple[str, int]]:
    """Kind and number of what the slot's user has of System V's memory, semaphores and queues."""
    for kind in KINDS:
        for user, number in _system_v(kind):
            if user == FIRST_USER + slot:
                yield kind, number


def _system_v(kind: str) -> Iterator[tuple[int, int]]:
    """Owner and number of all of a kind."""
    path = Path(f"/proc/sysvipc/{kind}")
    heads, *rows = path.read_text().splitlines() if path.is_file() else [""]
    for row in rows:
        words = [int(word) for word in row.split()]
        yield words[heads.split().index("cuid")], words[1]


def clean(slot: int) -> None:
    """Remove all that a slot's user, who runs nothing any more, has left.

    Raises:
        OSError: something cannot be removed.
    """
    for path in files_of(slot):
        remove(path)
    libc = ctypes.CDLL(None)
    for kind, number in ipc_of(slot):
        name, at = KINDS[kind]
        getattr(libc, name)(number, *[0] * (at - 1), IPC_RMID, 0)
    if left := [*map(str, files_of(slot)), *map(str, ipc_of(slot))]:
        raise OSError(f"{left[0]} of sandbox {slot} cannot be removed")


def slots_with_leftovers() -> set[int]:
    """Slots whose users have a process or a file on this machine, or something of System V."""
    users = {user for kind in KINDS for user, _ in _system_v(kind)}
    for place in (Path("/proc"), *shared_places()):
        with contextlib.suppress(OSError):
            for entry in os.scandir(place):
                with contextlib.suppress(OSError):
                    users.add(entry.stat(follow_symlinks=False).st_uid)
    return {user - FIRST_USER for user in users if 0 <= user - FIRST_USER < MOST_SLOTS}


@contextlib.contextmanager
def own_folder() -> Iterator[Path]:
    """A folder of ours, for what the sandbox may see; gone afterwards, or when a grader starts.

    Who makes it keeps it locked: the lock of a grader that was killed is gone.
    """
    with contextlib.ExitStack() as opened:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        opened.callback(_remove_if_possible, folder)
        number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        opened.callback(os.close, number)
        fcntl.flock(number, fcntl.LOCK_EX)
        yield folder


def _remove_if_possible(folder: Path) -> None:
    with contextlib.suppress(OSError):  # the next grader tries it again
        remove(folder)


def remove_stale() -> None:
    """Remove folders of ours that nobody keeps locked."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # another's, or in use, or gone
            found = path.lstat()
            if found.st_uid != os.geteuid() or time.time() - found.st_ctime < JUST_MADE_S:
                continue
            number = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(path)
            finally:
                os.close(number)


def for_group(folder: Path, group: int) -> None:
    """Let a group read a folder of ours and all in it, and nobody else, whatever the umask was."""
    for path in (folder, *folder.rglob("*")):
        if os.geteuid() == 0:
            os.chown(path, 0, group)
        path.chmod(0o750 if path.is_dir() else 0o640)
