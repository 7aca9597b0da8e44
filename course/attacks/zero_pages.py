"""Maps /dev/zero, shared: memory as that without a file, made in another way.

Defended by: isolation.py: there is none in bubblewrap; else sandbox.py counts what is mapped.
"""

STEP = """
import ctypes, mmap, time
def evil(self, closure=None):
    try:
        with open("/dev/zero", "r+b", buffering=0) as file:
            pages = mmap.mmap(file.fileno(), 2**29)
    except OSError:
        raise Exception("no such memory")
    libc, start = ctypes.CDLL(None), ctypes.addressof(ctypes.c_char.from_buffer(pages))
    for at in range(0, 2**28, 2**24):
        pages[at : at + 2**24] = b"x" * 2**24
        libc.madvise(ctypes.c_void_p(start + at), ctypes.c_size_t(2**24), 4)
    time.sleep(2)
    raise Exception("GOT THROUGH")
"""
