"""Leaves a letter in System V's semaphores and queues, and uses those that others have left.

Defended by: seccomp.py: none of their calls, also not on what is there; leftovers.py removes them.
"""

STEP = """
import ctypes
def evil(self, closure=None):
    libc = ctypes.CDLL(None, use_errno=True)
    got = []
    for name, arguments in (("semget", (77, 1, 0o1666)), ("msgget", (77, 0o1666))):
        if getattr(libc, name)(*arguments) >= 0:
            got.append(name)
    for name, arguments in (("semctl", (0, 0, 11)), ("msgctl", (0, 2, 0)), ("shmctl", (0, 2, 0))):
        getattr(libc, name)(*arguments)
        if ctypes.get_errno() != 1:
            got.append(name)
    raise Exception(f"GOT THROUGH: {got}" if got else "nothing of it")
"""
