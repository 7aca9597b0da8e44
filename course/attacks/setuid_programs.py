"""Starts programs that run with more rights than who starts them, such as crontab, at, mount.

Defended by: confine.py: no program gives this process or its children new rights, filters or not.
"""

STEP = """
import subprocess
def evil(self, closure=None):
    status = open("/proc/self/status").read()
    line = "* * * * * touch /tmp/left-by-attack-cron"
    try:
        done = subprocess.run(["crontab", "-"], input=line.encode(), capture_output=True)
        planned = done.returncode == 0
    except OSError:
        planned = False
    through = planned or "NoNewPrivs:\\t1" not in status
    raise Exception("GOT THROUGH" if through else "no more rights")
"""
