"""Leaves more than a thousand folders in each other under one that may not be entered.

Defended by: removal.py: by descriptor, without recursion, whatever the modes; in the end as root.
"""

STEP = """
import os
def evil(self, closure=None):
    for place in (".", "/tmp", "/var/tmp"):
        try:
            os.chdir(place)
            top = os.path.abspath("left-by-attack-closed")
            os.mkdir(top)
            os.chdir(top)
            for _ in range(1300):
                os.mkdir("d")
                os.chdir("d")
            os.chmod(top, 0)
        except OSError:
            pass
    os._exit(0)
"""
STATUSES = {"1.5": "crashed"}
