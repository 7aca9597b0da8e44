"""A control group for each slot: the kernel itself then limits what its programs hold.

All memory counts, also what no process has mapped: files in memory, shared pages, the kernel's own
for files, pipes and queues. Of version 2, and of version 1's memory controller, as root where the
tree may be written; not in most containers, and no other limit needs it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from course.grading.sandbox.confine import MIB

NAME = "minbert-grading"
LIMITS = ("memory.max", "memory.limit_in_bytes")  # of version 2 and 1
WITH_SWAP = ("memory.memsw.limit_in_bytes",)  # of version 1: memory and swap together
NO_SWAP = ("memory.swap.max",)
EVENTS = ("memory.events", "memory.oom_control")


@cache
def parent() -> Path | None:
    """The folder of the slots' groups; None: none can be made here."""
    for root in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/memory")):
        probe = root / NAME / f"probe-{os.getpid()}"
        if not (root / "cgroup.procs").exists():
            continue
        with contextlib.suppress(OSError):
            probe.parent.mkdir(exist_ok=True)
            for folder in (root, probe.parent):
                if (control := folder / "cgroup.subtree_control").exists():
                    control.write_text("+memory")
            probe.mkdir()
            there = any((probe / name).exists() for name in LIMITS)
            probe.rmdir()
            if there:
                return probe.parent
    return None


@contextlib.contextmanager
def group(slot: int, total_mib: int) -> Iterator[Path | None]:
    """A slot's group, gone afterwards; None where there are none."""
    if parent() is None:
        yield None
        return
    folder = parent() / f"slot-{slot}"
    _remove(folder)  # a killed grader's
    folder.mkdir(exist_ok=True)
    for name, value in (
        *((name, total_mib * MIB) for name in (*LIMITS, *WITH_SWAP)),
        *((name, 0) for name in NO_SWAP),
    ):
        if (folder / name).exists():
            (folder / name).write_text(str(value))
    try:
        yield folder
    finally:
        _remove(folder)


def entering(folder: Path | None, command: Sequence[str]) -> list[str]:
    """A command that puts itself into the group before it begins."""
    if folder is None:
        return list(command)
    return ["/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', str(folder / "cgroup.procs"), *command]


def was_full(folder: Path | None) -> bool:
    """Whether the kernel has ended a process of the group for lack of memory."""
    for name in EVENTS if folder else ():
        if (path := folder / name).exists():
            words = dict(line.split() for line in path.read_text().splitlines())
            return words.get("oom_kill", "0") != "0"
    return False


def _remove(folder: Path) -> None:
    """Remove a group; its last processes may take a moment to leave it."""
    for _ in range(100):
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.01)
