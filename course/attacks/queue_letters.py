"""Leaves a letter in a POSIX queue, which stays when its process is gone, and looks for one.

Defended by: seccomp.py: no queues; isolation.py: a namespace of its own; leftovers.py removes them.
"""

STEP = """
import ctypes, os
def evil(self, closure=None):
    libc = ctypes.CDLL(None, use_errno=True)
    number = libc.syscall(240, b"message-to-friends", os.O_RDWR | os.O_CREAT, 0o666, None)
    if number >= 0:
        libc.syscall(242, number, b"the answer", 10, 0, None)
    raise Exception("GOT THROUGH" if number >= 0 else "no queue")
"""
