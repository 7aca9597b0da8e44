"""Looks for what left_files has left, graded long before it: a batch goes by the names.

Defended by: isolation.py: a new folder in memory for each, and no other that can be written.
"""

STEP = """
import glob, os
def evil(self, closure=None):
    folders = ("/tmp", "/var/tmp", "/dev/shm", ".")
    found = [p for folder in folders for p in glob.glob(f"{folder}/message-to-friends*")]
    raise Exception(f"GOT THROUGH: {found}" if found else "nothing there")
"""
