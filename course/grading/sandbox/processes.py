"""The processes of this machine: which belong to a sandbox, what they hold, and their end."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from course.grading.sandbox.confine import FIRST_USER, be_reaper

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1", "HOME": "/tmp"}
SWEEP_S = 20.0  # until all processes of a slot are gone; process 1 may take seconds to notice


@dataclass(frozen=True)
class Process:
    """What /proc tells about a process."""

    parent: int
    user: int
    pages: int  # of memory
    start: int  # in ticks since the machine started: numbers are used again


def as_user(slot: int) -> dict:
    """Arguments of Popen for a slot's user."""
    return {"user": FIRST_USER + slot, "group": FIRST_USER + slot, "extra_groups": []}


def all_processes() -> dict[int, Process]:
    """All of this machine, by their numbers."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # the name in brackets may be anything
            words = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            user = entry.stat().st_uid
            found[int(entry.name)] = Process(int(words[1]), user, int(words[21]), int(words[19]))
    return found


def below(root: int, everything: Mapping[int, Process]) -> set[int]:
    """A process, its children, theirs, and so on."""
    children = defaultdict(list)
    for number, one in everything.items():
        children[one.parent].append(number)
    waiting = [root]
    for number in waiting:  # the list grows while it is read
        waiting += children[number]
    return set(waiting)


def of_user(slot: int, everything: Mapping[int, Process]) -> set[int]:
    """The processes of a slot's user, where it has one."""
    if os.geteuid() != 0:
        return set()
    return {n for n, one in everything.items() if one.user == FIRST_USER + slot}


def memory(root: int, slot: int) -> int:
    """Bytes that a process, all below it and all of the slot's user hold."""
    everything = all_processes()
    theirs = below(root, everything) | of_user(slot, everything)
    pages = sum(everything[number].pages for number in theirs if number in everything)
    return pages * resource.getpagesize()


def unlinked_files(slot: int) -> Iterator[os.stat_result]:
    """Files that the slot's user holds open or mapped, and that no folder names any more."""
    seen = set()
    for number in of_user(slot, all_processes()):
        for place in ("fd", "map_files"):
            with contextlib.suppress(OSError):
                for entry in os.scandir(f"/proc/{number}/{place}"):
                    with contextlib.suppress(OSError):
                        found = os.stat(entry.path)
                        if not found.st_nlink and (found.st_dev, found.st_ino) not in seen:
                            seen.add((found.st_dev, found.st_ino))
                            yield found


def kill(process: subprocess.Popen, slot: int, namespaces: bool) -> None:
    """End a program and all it has started; return when nobody of them is left.

    Args:
        namespaces: whether the program runs below the process, in a table of processes of its own.

    Raises:
        RuntimeError: somebody is left.
    """
    everything = all_processes()
    known = {n: everything[n] for n in below(process.pid, everything) & everything.keys()}
    if namespaces:
        # the program first, so that bubblewrap takes note of its end: else it stays as a zombie,
        # which counts against its user's number of processes
        for number in known.keys() - {process.pid}:
            _end(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    sweep(slot, known)


def sweep(slot: int, known: Mapping[int, Process] | None = None, seconds: float = SWEEP_S) -> None:
    """Kill what the slot's user still runs, and wait until it is gone from the table of processes.

    A killed process stays there, and counts against limits, until its parent takes note. Of those
    whose parent has died this process is the parent (``Adoption``); those of a grader that
    was killed have process 1, which may take a second or two.

    Args:
        known: further processes, which an ordinary user cannot tell by their user.
        seconds: how long that may take.

    Raises:
        RuntimeError: somebody is left, and would be there in the next submission's sandbox.
    """
    deadline = time.monotonic() + seconds
    while left := _left(slot, known or {}):
        if time.monotonic() > deadline:
            raise RuntimeError(
                f"processes {sorted(left)} of an earlier run in sandbox {slot} (user "
                f"{FIRST_USER + slot}) do not end within {seconds:g} s: end them, or restart"
            )
        end_all_of(slot)
        for number in left:
            _end(number)
            with contextlib.suppress(ChildProcessError):  # another's child
                os.waitpid(number, os.WNOHANG)
        time.sleep(0.01)


def end_all_of(slot: int) -> None:
    """Kill all processes of the slot's user at once.

    One by one, those that start another one and end, faster than they are found, would get away.
    """
    if os.geteuid() == 0:
        command = ["/bin/sh", "-c", "kill -KILL -1"]  # all that this user may kill, but itself
        subprocess.run(
            command, stderr=subprocess.DEVNULL, env=ENVIRONMENT, check=False, **as_user(slot)
        )


def _left(slot: int, known: Mapping[int, Process]) -> set[int]:
    """Those of the known processes and of the slot's user that are there, dead or alive."""
    everything = all_processes()
    left = {n for n, one in known.items() if n in everything and everything[n].start == one.start}
    return left | of_user(slot, everything)


def _end(number: int) -> None:
    """Kill a process that may be gone, or another user's by now."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(number, signal.SIGKILL)


class Adoption:
    """While a sandbox is used, orphans come to this process, which takes note of their end.

    Not for ever: this process waits for what comes out of a sandbox, and for nobody else's.
    """

    def __init__(self) -> None:
        self.lock, self.sandboxes = threading.Lock(), 0

    def __enter__(self) -> None:
        self.change(1)

    def __exit__(self, *_: object) -> None:
        self.change(-1)

    def change(self, by: int) -> None:
        """One sandbox more, or less."""
        with self.lock:
            self.sandboxes += by
            be_reaper(self.sandboxes > 0)


ADOPTION = Adoption()
