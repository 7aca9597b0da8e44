"""Forks without end, and each child too.

Defended by: confine.py: at most 24 processes; worker.py: all killed at the end of the task.
"""

STEP = """
import os
def evil(self, closure=None):
    while True:
        try:
            os.fork()
        except OSError:
            pass
"""
