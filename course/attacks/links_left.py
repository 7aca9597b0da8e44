"""Leaves links to the staff's files where they will be removed, so that the files are instead.

Defended by: removal.py: no link is followed, what is removed are names.
"""

STEP = """
import os
TARGETS = ("/etc", "/usr/lib", "/autograder", os.path.dirname(os.__file__), "/proc/self/cwd")
def evil(self, closure=None):
    for place in (".", "/tmp", "/var/tmp", "/dev/shm"):
        for number, target in enumerate(TARGETS):
            for make in (os.symlink, os.link):
                try:
                    os.mkdir(f"{place}/left-by-attack-{number}")
                except OSError:
                    pass
                try:
                    make(target, f"{place}/left-by-attack-{number}/{make.__name__}")
                except OSError:
                    pass
    os._exit(0)
"""
STATUSES = {"1.5": "crashed"}
