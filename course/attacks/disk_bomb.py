"""Fills the disk with one big file.

Defended by: sandbox.py: a limit of file size; bubblewrap: the only folder is in memory, with a
size.
"""

STEP = """
def evil(self, closure=None):
    total = 0
    try:
        with open("big", "wb") as file:
            while True:
                total += file.write(b"x" * 2**20)
                if total > 2**28:
                    raise Exception("GOT THROUGH")
    except OSError:
        raise Exception(f"ended after {total}")
"""
