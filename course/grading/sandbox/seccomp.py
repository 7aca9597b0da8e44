"""Filters of system calls, which the sandboxed process puts in place before it runs foreign code.

The kernel keeps them for all its children, and nobody can take them off again. The first one, for
the whole sandbox, forbids what grading never needs: sockets of any kind, looking into or tracing
other processes, namespaces, mounts, kernel modules, BPF, io_uring, memory that no limit counts,
queues and memory that outlive who made them. The
second one, for a single task, forbids what would reach other processes of the same user: signals,
limits and priorities. Forbidden calls fail with EPERM. Linux on x86-64 and arm64 only; see
seccomp(2) and the kernel's Documentation/userspace-api/seccomp_filter.rst. Written by hand since
libseccomp is not installed everywhere.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterable

# System call numbers on (x86-64, arm64), from the kernel's tables; None: it does not exist there
FORBIDDEN = {
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200),
    "listen": (50, 201), "accept": (43, 202), "accept4": (288, 242), "sendto": (44, 206),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438), "kcmp": (312, 272), "perf_event_open": (298, 241),
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39),
    "pivot_root": (155, 41), "chroot": (161, 51), "fsopen": (430, 430), "fsmount": (432, 432),
    "move_mount": (429, 429), "open_tree": (428, 428), "mount_setattr": (442, 442),
    "bpf": (321, 280), "userfaultfd": (323, 282), "keyctl": (250, 219), "add_key": (248, 217),
    "request_key": (249, 218), "init_module": (175, 105), "finit_module": (313, 273),
    "kexec_load": (246, 104), "reboot": (169, 142), "swapon": (167, 224), "acct": (163, 89),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171),
    "sethostname": (170, 161), "setdomainname": (171, 162), "quotactl": (179, 60),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    # no limit counts what these hold
    "memfd_create": (319, 279), "memfd_secret": (447, 447),
    # what stays when all processes are gone, and what others have left
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195),
    "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187),
    "semget": (64, 190), "semop": (65, 193), "semtimedop": (220, 192), "semctl": (66, 191),
    "mq_open": (240, 180), "mq_unlink": (241, 181), "mq_timedsend": (242, 182),
    "mq_timedreceive": (243, 183), "mq_notify": (244, 184), "mq_getsetattr": (245, 185),
}  # fmt: skip
REACHING = {  # other processes of the same user
    "kill": (62, 129), "tkill": (200, 130), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "pidfd_send_signal": (424, 424), "pidfd_open": (434, 434),
    "setpriority": (141, 140), "sched_setparam": (142, 118), "sched_setscheduler": (144, 119),
    "sched_setattr": (314, 274), "sched_setaffinity": (203, 122), "ioprio_set": (251, 30),
    "setpgid": (109, 154),
}  # fmt: skip
CLONE, CLONE3, TGKILL, PRLIMIT, FCNTL, IOCTL, MMAP = (
    (56, 220), (435, 435), (234, 131), (302, 261), (72, 25), (16, 29), (9, 222),
)  # fmt: skip
NEW_NAMESPACES = 0x7E020000  # the CLONE_NEW… flags; clone3 has them in memory, where none can look
# Pages that no process need hold: shared ones, also of what fork hands on, and huge ones
MAP_SHARED, MAP_ANONYMOUS, MAP_HUGETLB = 0x01, 0x20, 0x40000
OWNERS = (8, 10, 15)  # F_SETOWN, F_SETSIG, F_SETOWN_EX: have the kernel send any signal to anybody
IOCTL_OWNERS = (0x8901, 0x8902)  # FIOSETOWN, SIOCSPGRP
ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column, AUDIT_ARCH_…
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
ALLOW, KILL_PROCESS, FAIL = 0x7FFF0000, 0x80000000, 0x00050000
# BPF_LD|W|ABS, and of BPF_JMP|K: JEQ, JGE, JSET; BPF_RET|K
LOAD, JUMP_EQUAL, JUMP_ABOVE, JUMP_BITS, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
AND = 0x54  # BPF_ALU|AND|K
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16  # their offsets in what a filter looks at
X32 = 0x40000000  # system calls from here on are x86-64's second table
Code = list[tuple[int, int, int, int]]  # code, jump if true, jump if false, operand


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def forbid(number: int, error: int = errno.EPERM) -> Code:
    """A call fails, whatever its arguments."""
    return [(JUMP_EQUAL, 0, 1, number), (RETURN, 0, 0, FAIL | error)]


def forbid_where(
    number: int, argument: int, jump: int, values: Iterable[int], bits: int = 0xFFFFFFFF
) -> Code:
    """A call fails where an argument's lower half is one of the values, or has one of their bits.

    Args:
        jump: JUMP_EQUAL or JUMP_BITS.
        bits: of the argument, those that are looked at.
    """
    tests = [test for value in values for test in ((jump, 0, 1, value), (RETURN, 0, 0, FAIL | 1))]
    return [
        (JUMP_EQUAL, 0, len(tests) + 3, number),
        (LOAD, 0, 0, ARGUMENTS + 8 * argument),
        (AND, 0, 0, bits),
        *tests,
        (LOAD, 0, 0, NUMBER),  # for the instructions that follow
    ]


def allow_only(number: int, argument: int, value: int) -> Code:
    """A call fails unless an argument's lower half is this value."""
    return [
        (JUMP_EQUAL, 0, 4, number),
        (LOAD, 0, 0, ARGUMENTS + 8 * argument),
        (JUMP_EQUAL, 1, 0, value),
        (RETURN, 0, 0, FAIL | errno.EPERM),
        (RETURN, 0, 0, ALLOW),
    ]


def for_all(column: int) -> Code:
    """What nobody in the sandbox may call."""
    code = [one for pair in FORBIDDEN.values() for one in forbid(pair[column])]
    code += forbid_where(CLONE[column], 0, JUMP_BITS, [NEW_NAMESPACES])
    code += forbid_where(MMAP[column], 3, JUMP_BITS, [MAP_HUGETLB])
    nobody_s = MAP_SHARED | MAP_ANONYMOUS
    code += forbid_where(MMAP[column], 3, JUMP_EQUAL, [nobody_s], nobody_s)
    return code + forbid(CLONE3[column], errno.ENOSYS)  # then the C library takes clone


def for_task(column: int, own: int) -> Code:
    """What a single task, the process ``own``, may not call either."""
    code = [one for pair in REACHING.values() for one in forbid(pair[column])]
    code += allow_only(TGKILL[column], 0, own)  # abort() signals its own process
    code += allow_only(PRLIMIT[column], 0, 0)  # 0: itself
    code += forbid_where(FCNTL[column], 1, JUMP_EQUAL, OWNERS)
    return code + forbid_where(IOCTL[column], 1, JUMP_EQUAL, IOCTL_OWNERS)


def assembled(code: Code, architecture: int) -> bytes:
    """A whole filter: eight bytes an instruction. Calls by another table are not what they seem."""
    whole = [
        (LOAD, 0, 0, ARCHITECTURE),
        (JUMP_EQUAL, 1, 0, architecture),
        (RETURN, 0, 0, KILL_PROCESS),
        (LOAD, 0, 0, NUMBER),
        (JUMP_ABOVE, 0, 1, X32),
        (RETURN, 0, 0, FAIL | errno.EPERM),
        *code,
        (RETURN, 0, 0, ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *one) for one in whole)


def supported() -> bool:
    """Whether this machine has the calls that are filtered here."""
    return platform.system() == "Linux" and platform.machine() in ARCHITECTURES


def install(task_only: bool = False) -> bool:
    """Put a filter in place for this process and its children; False where that is impossible."""
    if not supported():
        return False
    column, architecture = ARCHITECTURES[platform.machine()]
    code = for_task(column, os.getpid()) if task_only else for_all(column)
    filled = assembled(code, architecture)
    buffer = ctypes.create_string_buffer(filled, len(filled))
    program = _Program(len(filled) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return False
    return libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) == 0
