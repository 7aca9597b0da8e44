"""What a sandboxed program may use. All of it is set or watched from outside the program.

Memory is what the kernel counts for a control group, where this user can make one: also memory that
belongs to no process. Elsewhere it is the sum of what the processes hold, looked at ten times a
second, and all runs end where the machine itself has hardly any memory left.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MIB = 2**20
RESERVE_KIB = 512 * 1024  # of the machine's memory
# Where groups are, in versions 2 and 1: the limits of memory and swap, and whether it has killed
GROUPS = {
    Path("/sys/fs/cgroup"): ("memory.max", "memory.swap.max", "memory.events"),
    Path("/sys/fs/cgroup/memory"): (
        *("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
        "memory.oom_control",
    ),
}


@dataclass(frozen=True)
class Limits:
    """What a sandboxed program may use."""

    wall_s: float = 180.0
    cpu_s: int = 100  # of each process
    memory_mib: int = 3072  # address space of each process
    total_mib: int = 4096  # memory of all of them
    file_mib: int = 64  # of each file, and of the temporary folder
    processes: int = 24  # and threads
    open_files: int = 256
    answer_mib: int = 64  # what it may send back

    def command(self) -> list[str]:
        """What starts a program, and all that it starts, under the limits of each process."""
        return [
            "prlimit",
            f"--cpu={self.cpu_s}:{self.cpu_s + 1}",  # first a signal that says why
            f"--as={self.memory_mib * MIB}",
            f"--fsize={self.file_mib * MIB}",
            f"--nproc={self.processes}",
            f"--nofile={self.open_files}",
            "--core=1",  # with 0, core(5) still starts a program of the machine's
        ]


@contextlib.contextmanager
def memory_group(limits: Limits) -> Iterator[Path | None]:
    """A control group with a limit of memory; None where this user cannot make one."""
    for top, (limit, swap, _) in GROUPS.items():
        group = top / f"minbert-grading-{os.getpid()}-{secrets.token_hex(4)}"
        with contextlib.suppress(OSError):
            group.mkdir()
        try:
            if (group / limit).exists():
                for path in filter(Path.exists, (group / limit, group / swap)):
                    path.write_text(str(limits.total_mib * MIB))
                yield group
                return
        finally:
            end = time.monotonic() + 10
            while group.exists() and time.monotonic() < end:  # until its last process is gone
                with contextlib.suppress(OSError):
                    group.rmdir()
                time.sleep(0.01)
    yield None


def has_too_much(group: Path | None, limits: Limits, first: int, user: int | None) -> bool:
    """Whether a run, from its first process on, has met its limit of memory.

    RuntimeError: this machine has hardly any memory left.
    """
    if group:
        return "oom_kill 0\n" not in (group / GROUPS[group.parent][-1]).read_text()
    available = re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())
    if available and int(available[1]) < RESERVE_KIB:
        raise RuntimeError("this machine has hardly any memory left: grade fewer at a time")
    return held(first, user) > limits.total_mib * MIB


def held(first: int, user: int | None) -> int:
    """Bytes that a process, all that descend from it and all others of a user hold."""
    rows = {}  # process → its parent, its user, its pages
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            line = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
            rows[int(folder.name)] = (int(line[1]), folder.stat().st_uid, int(line[21]))
    family = {first}
    while more := {
        number
        for number, (parent, owner, _) in rows.items()
        if number not in family and (parent in family or owner == user)
    }:
        family |= more
    pages = sum(rows[number][2] for number in family & rows.keys())
    return pages * os.sysconf("SC_PAGE_SIZE")
