"""Tells the kernel to end the program that runs its tasks first, should memory run out.

Defended by: worker.py: its children cannot write, or look, into its files in /proc.
"""

STEP = """
import os
def evil(self, closure=None):
    try:
        with open(f"/proc/{os.getppid()}/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        raise Exception("not permitted")
    raise Exception("GOT THROUGH")
"""
