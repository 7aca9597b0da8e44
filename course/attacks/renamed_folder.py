"""Closes its own folder, and gives it another name, so that it is not found and stays.

Defended by: leftovers.py: what a slot's user has is removed wherever it lies, whatever its mode.
"""

STEP = """
import os, tempfile
def evil(self, closure=None):
    own = tempfile.gettempdir()
    for name in ("/var/tmp", "/tmp", "/dev/shm"):
        try:
            os.mkdir(f"{own}/kept")
            os.rename(f"{own}/kept", f"{name}/left-by-attack-renamed")
            os.chmod(f"{name}/left-by-attack-renamed", 0)
        except OSError:
            pass
    try:
        os.rename(own, f"{os.path.dirname(own)}/left-by-attack-own")
        os.chmod(f"{os.path.dirname(own)}/left-by-attack-own", 0)
    except OSError:
        pass
    os._exit(0)
"""
STATUSES = {"1.5": "crashed"}
