"""Ends its parent, in which its other tasks run, without kill(2): by a limit of processor time.

Defended by: protocol.py: the tasks that have no answer yet run in another sandbox.
"""

CODE = {
    "bert.py": """
import os, resource, time
def evil(self, *_):
    os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)
    resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (0, 0))
    time.sleep(2)
BertSelfAttention.attention = evil
""",
    "optimizer.py": "",
}
BASE = "solution"
TASKS = {"1.2": 10, "1.4": 15, "1.5": 20}
STATUSES = {"1.1": "crashed", "1.3": "crashed"}
