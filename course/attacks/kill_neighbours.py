"""Kills, stops or interrupts its parent and everything it may; then it is still graded.

Defended by: isolation.py: nobody else is in its namespace, and the kernel keeps the signals of a
namespace from its first process, worker.py.
"""

CODE = {
    "bert.py": """
import ctypes, os, signal
def evil(self, *_):
    libc, parent = ctypes.CDLL(None), os.getppid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGSTOP, signal.SIGKILL):
        for victim in (parent, -parent, -1):
            try:
                os.kill(victim, number)
            except OSError:
                pass
        libc.syscall(234, parent, parent, number)  # tgkill
    raise Exception("nobody killed")
BertSelfAttention.attention = evil
""",
    "optimizer.py": "",
}
BASE = "solution"
TASKS = {"1.2": 10, "1.3": 15, "1.4": 15, "1.5": 20}
STATUSES = {"1.1": "wrong"}
