"""Takes memory that no process holds: memfd, System V, /dev/shm.

Defended by: seccomp.py forbids what no limit counts; bubblewrap: /dev is read-only.
"""

STEP = """
import ctypes, os, tempfile
def evil(self, closure=None):
    got = []
    try:
        os.memfd_create("x")
        got.append("memfd")
    except OSError:
        pass
    libc = ctypes.CDLL(None)
    if libc.shmget(0, 2**20, 0o1600) >= 0:
        got.append("shmget")
    try:
        open("/dev/shm/left-by-attack", "wb").write(b"x" * 2**20)
        got += ["/dev/shm"] if tempfile.gettempdir() == "/tmp" else []
    except OSError:
        pass
    raise Exception(f"GOT THROUGH: {got}" if got else "no such memory")
"""
