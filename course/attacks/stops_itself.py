"""Stops itself by SIGSTOP instead of ending.

Defended by: worker.py: seconds of each task, by the clock on the wall.
"""

STEP = """
import signal
def evil(self, closure=None):
    signal.raise_signal(signal.SIGSTOP)
"""
STATUSES = {"1.5": "timeout"}
