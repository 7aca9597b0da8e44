"""Leaves files for the next submission, and looks for what an earlier one has left.

Defended by: isolation.py: a new folder in memory for each, and no other that can be written.
"""

STEP = """
import glob, os
PLACES = ("/tmp", "/var/tmp", "/dev/shm", os.environ.get("HOME", "/tmp"), ".")
def evil(self, closure=None):
    found = [path for folder in PLACES for path in glob.glob(f"{folder}/message-to-friends*")]
    for folder in PLACES:
        try:
            open(f"{folder}/message-to-friends", "w").write("the answer")
        except OSError:
            pass
    os._exit(0) if not found else None
    raise Exception(f"GOT THROUGH: {found}")
"""
STATUSES = {"1.5": "crashed"}
