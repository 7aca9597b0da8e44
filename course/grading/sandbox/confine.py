"""What a program of ours gives up, for itself and its children, before it runs foreign code.

It runs inside the sandbox, called by worker.py: limits of each process, and a filter of system
calls, by their names: libseccomp knows the numbers. Namespaces keep a program from other processes
and from the network. What is forbidden here is what they leave: memory that no limit counts,
namespaces of its own, the parts of the kernel that a program without rights rarely needs; and
sockets, since on Gradescope there are no namespaces. The kernel keeps limits and filter for all
children, and nobody can take them off again.
"""

from __future__ import annotations

import ctypes
import errno
import math
import os
import resource
import time
from dataclasses import dataclass

MIB = 2**20
LIBRARY = "libseccomp.so.2"
FORBIDDEN = (
    "socket", "socketpair", "io_uring_setup",
    # memory that no process need hold
    "memfd_create", "memfd_secret", "shmget", "msgget", "semget", "mq_open",
    # namespaces, and what is done with them
    "unshare", "setns", "mount", "fsopen", "open_tree", "move_mount", "chroot", "pivot_root",
    # other processes
    "ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp", "perf_event_open",
    # keys outlive who made them; the rest is for programs with rights
    "add_key", "request_key", "keyctl", "bpf", "userfaultfd", "open_by_handle_at",
    "init_module", "finit_module", "kexec_load", "settimeofday", "clock_settime", "adjtimex",
)  # fmt: skip
CLONE_NEWUSER = 0x10000000
MAP_SHARED_ANONYMOUS, MAP_HUGETLB = 0x21, 0x40000
ALLOW, FAIL = 0x7FFF0000, 0x00050000  # SCMP_ACT_ALLOW, SCMP_ACT_ERRNO(0)
MASKED_EQUAL = 7  # SCMP_CMP_MASKED_EQ


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


def confine(limits: Limits) -> None:
    """Give up, in this process and for ever, what foreign code must not have.

    Raises:
        OSError: it cannot be given up; then nothing foreign may run.
    """
    used = math.ceil(time.process_time())  # by this program before, which a child does not inherit
    for kind, value in (
        (resource.RLIMIT_CPU, limits.cpu_s + used),
        (resource.RLIMIT_AS, limits.memory_mib * MIB),
        (resource.RLIMIT_FSIZE, limits.file_mib * MIB),
        (resource.RLIMIT_NPROC, limits.processes),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_CORE, 1),  # with 0, core(5) still starts a program of the machine's
    ):
        _, hard = resource.getrlimit(kind)
        # a second before the last one there is a signal that says why
        wanted = (value, value + (kind == resource.RLIMIT_CPU))
        allowed = math.inf if hard == resource.RLIM_INFINITY else hard
        resource.setrlimit(kind, tuple(min(number, allowed) for number in wanted))
    forbid()


class _Comparison(ctypes.Structure):
    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("bits", ctypes.c_uint64),
        ("value", ctypes.c_uint64),
    )


def problems() -> list[str]:
    """Why calls cannot be filtered on this machine."""
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return ["libseccomp is not installed: apt install libseccomp2"]
    return []


def forbid() -> None:
    """Put the filter in place, for this process and its children.

    Raises:
        OSError: it cannot be put in place.
    """
    library = ctypes.CDLL(LIBRARY)
    library.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(ALLOW)))

    def fails(name: str, error: int, argument: int = 0, bits: int = 0) -> None:
        """A call fails; with bits, only where an argument has them all."""
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number == -1:  # newer than this libseccomp
            return
        where = _Comparison(argument, MASKED_EQUAL, bits, bits)
        rule = library.seccomp_rule_add_array(
            context, ctypes.c_uint32(FAIL | error), number, int(bits != 0), ctypes.byref(where)
        )
        if rule < 0:
            raise OSError(-rule, f"seccomp: no rule for {name}: {os.strerror(-rule)}")

    for name in FORBIDDEN:
        fails(name, errno.EPERM)
    fails("clone3", errno.ENOSYS)  # its flags are in memory; the C library then takes clone
    fails("clone", errno.EPERM, 0, CLONE_NEWUSER)
    for bits in (MAP_SHARED_ANONYMOUS, MAP_HUGETLB):
        fails("mmap", errno.EPERM, 3, bits)
    if (failure := library.seccomp_load(context)) < 0:
        raise OSError(-failure, f"seccomp: {os.strerror(-failure)}")
    library.seccomp_release(context)
