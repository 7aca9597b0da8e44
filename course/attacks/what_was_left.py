"""Looks for what left_files has left, graded long before it: a batch goes by the names.

Defended by: sandbox.py: a new folder for each, what is left elsewhere is removed.
"""

STEP = """
import glob, os
def evil(self, closure=None):
    folders = ("/tmp", "/var/tmp", "/dev/shm", ".")
    found = [p for folder in folders for p in glob.glob(f"{folder}/message-to-friends*")]
    raise Exception(f"GOT THROUGH: {found}" if found else "nothing there")
"""
