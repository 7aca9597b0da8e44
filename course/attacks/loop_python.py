"""Loops for ever in Python.

Defended by: worker.py: seconds of each task.
"""

STEP = """
def evil(self, closure=None):
    while True:
        try:
            pass
        except BaseException:
            pass
"""
STATUSES = {"1.5": "timeout"}
