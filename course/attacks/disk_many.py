"""Fills the disk: one big file, then many, everywhere it may write.

Defended by: isolation.py: the only folder that can be written is in memory, and has a size;
confine.py: a limit of file size.
"""

STEP = """
import os
def evil(self, closure=None):
    total = 0
    for folder in (".", "/var/tmp", "/tmp", "/dev/shm"):
        for number in range(30):
            try:
                with open(f"{folder}/left-by-attack-{number}", "wb", buffering=0) as file:
                    for _ in range(32 if number else 512):
                        total += file.write(b"x" * 2**20)
            except OSError:
                continue
    raise Exception("GOT THROUGH" if total > 2**27 else f"ended after {total}")
"""
