"""Asks for rights: setuid, chmod and chown of folders, higher limits, namespaces, mounts, priority.

Defended by: sandbox.py: another user without rights; hard limits; seccomp.py: no namespaces.
"""

STEP = """
import ctypes, os, resource, sys
def evil(self, closure=None):
    got, libc = [], ctypes.CDLL(None, use_errno=True)
    ours = [folder for folder in sys.path if "grading-files-" in folder]
    for what, call in {
        "setuid": lambda: os.setresuid(0, 0, 0),
        "setgid": lambda: os.setresgid(0, 0, 0),
        "groups": lambda: os.setgroups([0]),
        "chmod": lambda: [os.chmod(folder, 0o777) for folder in ours],
        "chown": lambda: os.chown("..", 0, 0),
        "nice": lambda: os.nice(-5),
        "chroot": lambda: os.chroot("."),
    }.items():
        try:
            call()
            if what != "chmod" or ours:
                got.append(what)
        except OSError:
            pass
    for what in (resource.RLIMIT_AS, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE):
        try:
            resource.setrlimit(what, (-1, -1))
            got.append(what)
        except (OSError, ValueError):
            pass
    if libc.unshare(0x10000000) == 0 or libc.mount(b"x", b"/tmp", b"tmpfs", 0, None) == 0:
        got.append("namespace")
    child = libc.syscall(56, 0x10000000 | 17, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    if child > 0:
        got.append("clone")
    if libc.prctl(38, 0, 0, 0, 0) == 0 or libc.prctl(21, 0, 0, 0, 0) != 2:
        got.append("no_new_privs or seccomp")
    raise Exception(f"GOT THROUGH: {got}" if got else "no rights")
"""
