"""Fills its standard error without end.

Defended by: sandbox.py: into a file of limited size, of which the end is kept.
"""

STEP = """
import os
def evil(self, closure=None):
    while True:
        try:
            os.write(2, b"x" * 65536)
        except OSError:
            pass
"""
STATUSES = {"1.5": "timeout"}
