"""Leaves a letter in its user's keyring of the kernel's, where the user's next submission finds it.

Defended by: seccomp.py: no keys.
"""

STEP = """
import ctypes
def evil(self, closure=None):
    libc = ctypes.CDLL(None, use_errno=True)
    number = libc.syscall(248, b"user", b"message-to-friends", b"the answer", 10, -4)
    raise Exception("GOT THROUGH" if number >= 0 else "no key")
"""
