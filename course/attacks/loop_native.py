"""Loops for ever in C, where no Python signal handler runs: a regular expression.

Defended by: worker.py: SIGKILL after the task's seconds.
"""

STEP = """
import re
def evil(self, closure=None):
    re.match(r"(a+)+$", "a" * 60 + "b")
"""
STATUSES = {"1.5": "timeout"}
