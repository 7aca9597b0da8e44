"""Fills the disk with many files, everywhere it may write.

Defended by: bubblewrap: a folder in memory, with a size. Else sandbox.py looks and removes.
"""

STEP = """
import os
def evil(self, closure=None):
    total = 0
    for folder in (".", "/var/tmp", "/tmp", "/dev/shm"):
        for number in range(30):
            try:
                with open(f"{folder}/left-by-attack-{number}", "wb") as file:
                    total += file.write(b"x" * 2**23)
            except OSError:
                break
    raise Exception("GOT THROUGH" if total > 2**28 else f"ended after {total}")
"""
