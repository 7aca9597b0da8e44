"""Kills its parent without kill(2): by its limits, by SIGIO of a pipe, stops it by priority.

Defended by: seccomp.py's filter for tasks: prlimit, F_SETOWN, F_SETSIG, setpriority of others.
"""

CODE = {
    "bert.py": """
import fcntl, os, resource, signal, time
def evil(self, *_):
    got = []
    for what in (resource.RLIMIT_CPU, resource.RLIMIT_NOFILE):
        try:
            resource.prlimit(os.getppid(), what, (0, 0))
            got.append("prlimit")
        except (OSError, ValueError):
            pass
    reader, writer = os.pipe()
    try:
        fcntl.fcntl(reader, fcntl.F_SETOWN, os.getppid())
        fcntl.fcntl(reader, 10, signal.SIGKILL)
        fcntl.fcntl(reader, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
        os.write(writer, b"x")
        got.append("SIGIO")
    except OSError:
        pass
    try:
        os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)
        got.append("priority")
    except OSError:
        pass
    time.sleep(0.2)
    raise Exception(f"GOT THROUGH: {got}" if got else "nobody killed")
BertSelfAttention.attention = evil
""",
    "optimizer.py": "",
}
BASE = "solution"
TASKS = {"1.2": 10, "1.3": 15, "1.4": 15, "1.5": 20}
STATUSES = {"1.1": "wrong"}
