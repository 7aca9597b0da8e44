"""Leaves hundreds of files, whose names are no text or as long as can be, for who removes them.

Defended by: removal.py: one name after the other, as the system gives it.
"""

STEP = """
import os
def evil(self, closure=None):
    for place in (".", "/tmp", "/var/tmp"):
        folder = f"{place}/left-by-attack-names".encode()
        try:
            os.mkdir(folder)
            for number in range(300):
                start = folder + b"/" + (b"\\xff\\n-rf *\\x1b", b"$(reboot)", b"--")[number % 3]
                name = start + str(number).encode()
                name += b"x" * (255 - len(os.path.basename(name)))
                os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0))
        except OSError:
            pass
    os._exit(0)
"""
