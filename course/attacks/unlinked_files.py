"""Fills the disk with files that no folder names any more, open or mapped.

Defended by: bubblewrap: a folder in memory, with a size. Else sandbox.py counts what is held open.
"""

STEP = """
import mmap, os, tempfile, time
def evil(self, closure=None):
    kept, total = [], 0
    for place in (".", "/var/tmp", "/tmp", "/dev/shm"):
        for number in range(10):
            try:
                with tempfile.TemporaryFile(dir=place) as file:
                    total += file.write(b"x" * 2**23)
                    file.flush()
                    kept.append(mmap.mmap(file.fileno(), 2**23, access=mmap.ACCESS_READ))
            except OSError:
                break
    time.sleep(2)
    raise Exception("GOT THROUGH" if total > 2**27 else f"ended after {total}")
"""
