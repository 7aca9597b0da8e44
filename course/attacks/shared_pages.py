"""Takes shared memory without a name, which can be given back page by page and still be there.

Defended by: seccomp.py: no shared memory without a file; the kernel's limit of a control group.
"""

STEP = """
import ctypes, mmap
def evil(self, closure=None):
    try:
        pages = mmap.mmap(-1, 2**30)
    except OSError:
        raise Exception("no such memory")
    libc, start = ctypes.CDLL(None), ctypes.addressof(ctypes.c_char.from_buffer(pages))
    for at in range(0, 2**28, 2**24):
        pages[at : at + 2**24] = b"x" * 2**24
        libc.madvise(ctypes.c_void_p(start + at), ctypes.c_size_t(2**24), 4)  # none of it is held
    raise Exception("GOT THROUGH")
"""
