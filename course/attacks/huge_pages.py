"""Asks for huge pages, which no process is said to hold.

Defended by: seccomp.py: none of them; the kernel's limit of a control group.
"""

STEP = """
import ctypes
def evil(self, closure=None):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_ssize_t
    libc.mmap(None, ctypes.c_size_t(2**21), 3, 0x40022, -1, ctypes.c_ssize_t(0))
    error = ctypes.get_errno()
    raise Exception("not permitted" if error == 1 else f"GOT THROUGH: {error}")
"""
