"""Takes memory in many processes, each below the limit (8 GB in all).

Defended by: worker.py looks at what all processes hold together.
"""

STEP = """
import os, time
def evil(self, closure=None):
    for _ in range(5):
        if os.fork() == 0:
            kept = b"x" * (3 * 2**29)
            time.sleep(60)
            os._exit(0)
    time.sleep(60)
"""
