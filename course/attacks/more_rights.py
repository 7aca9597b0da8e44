"""Asks for rights: setuid, chmod, chown, higher limits, namespaces, mounts, priority, keys.

Defended by: isolation.py: a user without rights, no new ones by setuid programs; confine.py: hard
limits, no namespaces, no keys.
"""

STEP = """
import ctypes, os, resource, sys
def evil(self, closure=None):
    got, libc = [], ctypes.CDLL(None, use_errno=True)
    ours = [folder for folder in sys.path if "grading-" in folder]
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
    if libc.syscall(248, b"user", b"message-to-friends", b"the answer", 10, -4) >= 0:
        got.append("a key, which stays")
    status = open("/proc/self/status").read()
    if "NoNewPrivs:\\t1" not in status or "Seccomp:\\t2" not in status:
        got.append("no_new_privs or seccomp")
    raise Exception(f"GOT THROUGH: {got}" if got else "no rights")
"""
