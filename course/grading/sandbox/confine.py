"""What a program of ours gives up, for itself and its children, before it runs foreign code.

It runs inside the sandbox: worker.py and training.py call it. It does not know what is around
(isolation.py) and who watches from outside (sandbox.py).
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from dataclasses import dataclass

# Of a batch's files for the sandbox; below the 65,536 that a container may have
FIRST_GROUP, GROUPS = 62_000, 3_000
FIRST_USER = 61_000  # slots' users: FIRST_USER, FIRST_USER + 1, …; no real account has these
MIB = 2**20
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 36, 38


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


@dataclass(frozen=True)
class Who:
    """As whom a sandboxed program runs, where the grader is root."""

    slot: int = 0  # programs that run at the same time have different ones, from 0
    group: int = FIRST_GROUP  # may read the staff's files that are laid out for the sandbox
    parent: int = 0  # the grader's process, unless this one has a table of processes of its own

    @property
    def user(self) -> int:
        """The number of the slot's user, and of a group of its own."""
        return FIRST_USER + self.slot


def be_reaper(yes: bool) -> None:
    """Whether this process becomes the parent of descendants whose own parent dies."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(yes), 0, 0, 0)


def die_with(parent: int) -> None:
    """Let the kernel kill this process when its parent dies; leave at once where it is dead.

    A program that its killed grader had just started would else run its submission next to the
    first one of the next grader, as the same user.

    Args:
        parent: the number of the parent; 0: whichever it is, it cannot be seen from here.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent and os.getppid() not in (0, parent):
        os._exit(1)


def confine(limits: Limits, who: Who) -> tuple[str, ...]:
    """Give up, in this process and for ever, what foreign code must not have; the layers' names.

    Raises:
        OSError: it cannot be given up; then nothing foreign may run.
    """
    from course.grading.sandbox import seccomp  # the staff's folder is on sys.path by now

    be_reaper(True)
    if os.geteuid() == 0:
        os.setgroups([who.group])
        os.setresgid(who.user, who.user, who.user)
        os.setresuid(who.user, who.user, who.user)
    die_with(who.parent)  # a new user clears it
    ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)  # no setuid program helps: cron, at
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
    if not seccomp.supported():
        return ()
    if not seccomp.install():
        raise OSError("the filter of system calls cannot be put in place")
    return ("filters of system calls",)


def confine_task() -> None:
    """Give up, in the process of one task, what would reach its neighbours.

    Raises:
        OSError: it cannot be given up.
    """
    from course.grading.sandbox import seccomp

    os.nice(10)  # the grader and whatever else runs here go first
    if seccomp.supported() and not seccomp.install(task_only=True):
        raise OSError("the task's filter of system calls cannot be put in place")
