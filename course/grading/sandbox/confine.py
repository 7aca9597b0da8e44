"""What a program of ours gives up, for itself and its children, before it runs foreign code.

It runs inside the sandbox, called by worker.py. What is around the program is in isolation.py; who
watches it from outside is in sandbox.py.
"""

from __future__ import annotations

import resource
from dataclasses import dataclass

MIB = 2**20


@dataclass(frozen=True)
class Limits:
    """What a sandboxed program may use."""

    wall_s: float = 180.0
    quiet_s: float = 60.0  # without a byte of an answer
    cpu_s: int = 100  # of each process
    memory_mib: int = 3072  # address space of each process
    total_mib: int = 4096  # memory that all of them hold
    file_mib: int = 64  # of each file, and of the temporary folder
    processes: int = 24  # and threads
    open_files: int = 256
    answer_mib: int = 64  # what it may send back
    output_kib: int = 64  # what is kept of what it prints


def confine(limits: Limits) -> list[str]:
    """Give up, in this process and for ever, what foreign code must not have; the layers' names.

    Raises:
        OSError: it cannot be given up; then nothing foreign may run.
    """
    from course.grading.sandbox import system_calls  # the staff's folder is on sys.path by now

    for kind, value in (
        (resource.RLIMIT_CPU, limits.cpu_s),
        (resource.RLIMIT_AS, limits.memory_mib * MIB),
        (resource.RLIMIT_FSIZE, limits.file_mib * MIB),
        (resource.RLIMIT_NPROC, limits.processes),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_CORE, 1),  # with 0, core(5) still starts a program of the machine's
    ):
        _, hard = resource.getrlimit(kind)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))
    system_calls.forbid()
    return ["filters of system calls"]
