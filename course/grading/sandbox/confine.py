"""What a sandboxed program may use: limits of each process, and of the memory of them all.

All of it is set or watched from outside, since a program is not asked about its own limits. Memory
is what the kernel counts for a group of processes (a control group, which root can make): also
memory without a process or a mapping. Elsewhere it is the sum of what processes hold, looked at ten
times a second, and nothing goes on where the machine itself has hardly any left.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MIB = 2**20
RESERVE = 512 * MIB  # of the machine, which no run may take
# Where control groups are, in versions 2 and 1: limits of memory and swap, and who was killed
GROUPS = {
    Path("/sys/fs/cgroup"): ("memory.max", "memory.swap.max", "memory.events"),
    Path("/sys/fs/cgroup/memory"): (
        "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.oom_control",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Limits:
    """What a sandboxed program may use."""

    wall_s: float = 180.0
    quiet_s: float = 60.0  # without a byte of an answer
    cpu_s: int = 100  # of each process
    memory_mib: int = 3072  # address space of each process
    total_mib: int = 4096  # memory of all of them
    file_mib: int = 64  # of each file, and of the temporary folder
    processes: int = 24  # and threads
    open_files: int = 256
    answer_mib: int = 64  # what it may send back
    output_kib: int = 64  # what is kept of what it prints

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
    """A new control group with a limit of memory; None where this user cannot make one."""
    for top, (*names, _) in GROUPS.items():
        group = top / f"minbert-grading-{secrets.token_hex(8)}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            if (group / names[0]).exists():
                for name in filter(lambda name: (group / name).exists(), names):
                    (group / name).write_text(str(limits.total_mib * MIB))
                yield group
                return
        finally:
            remove(group)
    yield None


def remove(group: Path) -> None:
    """Remove a control group once its last process is gone, which takes a moment."""
    end = time.monotonic() + 10
    while group.is_dir() and time.monotonic() < end:
        with contextlib.suppress(OSError):
            return group.rmdir()
        time.sleep(0.02)


def in_group(group: Path | None) -> list[str]:
    """What starts a program in a control group."""
    join = 'echo $$ >"$0" && exec "$@"'
    return ["sh", "-c", join, str(group / "cgroup.procs")] if group else []


def needs_too_much(group: Path | None, limits: Limits, first: int, user: int | None) -> bool:
    """Whether a run needs more memory than it may: the kernel has killed, or the sum is too large.

    Args:
        first: the process with which the run began.
        user: whose processes belong to it, too.

    Raises:
        RuntimeError: this machine has hardly any memory left.
    """
    if group:
        *_, events = GROUPS[group.parent]
        return "oom_kill 0\n" not in (group / events).read_text()
    available = fields(Path("/proc/meminfo"))["MemAvailable"]
    if kib(available) * 1024 < RESERVE:
        raise RuntimeError("this machine has hardly any memory left: grade fewer at a time")
    return held(first, user) > limits.total_mib * MIB


def held(first: int, user: int | None) -> int:
    """Bytes that a process, all that descend from it and all others of a user hold."""
    rows = {}  # number of a process → (its parent, its user, what it holds)
    for path in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):  # it has ended
            row = fields(path)
            of_user = int(row["Uid"].split()[0])
            rows[int(row["Pid"])] = (int(row["PPid"]), of_user, kib(row.get("VmRSS", "0 kB")))
    family = {first}
    while more := {
        number
        for number, (parent, owner, _) in rows.items()
        if number not in family and (parent in family or owner == user)
    }:
        family |= more
    return sum(rows[number][2] for number in family & rows.keys()) * 1024


def fields(path: Path) -> dict[str, str]:
    """The lines ``name: value`` of a file of the kernel's."""
    lines = path.read_text(errors="replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def kib(text: str) -> int:
    """The number in "12 kB"."""
    return int(text.split()[0])
