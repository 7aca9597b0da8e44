"""Takes memory that no process is said to hold: without a file, shared, in huge pages, in /dev.

Defended by: confine.py forbids what no limit counts; isolation.py: /dev is read-only, and its
zero is null.
"""

STEP = """
import ctypes, mmap, os
def shared(pages):  # written, and given back page by page: shared memory stays
    start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    for at in range(0, len(pages), 2**24):
        pages[at : at + 2**24] = b"x" * 2**24
        libc.madvise(ctypes.c_void_p(start + at), ctypes.c_size_t(2**24), 4)
def zero():
    with open("/dev/zero", "r+b", buffering=0) as file:
        shared(mmap.mmap(file.fileno(), 2**28))
libc = ctypes.CDLL(None, use_errno=True)
def called(name, *arguments):
    if getattr(libc, name)(*arguments) < 0:
        raise OSError
WAYS = {
    "memfd": lambda: os.memfd_create("x"),
    "System V": lambda: called("shmget", 0, 2**20, 0o1600),
    "queue": lambda: called("msgget", 77, 0o1666),
    "/dev": lambda: open("/dev/left-by-attack", "wb"),
    "/dev/shm": lambda: open("/dev/shm/left-by-attack", "wb"),
    "/dev/zero": zero,
    "shared pages": lambda: shared(mmap.mmap(-1, 2**28)),
    "huge pages": lambda: mmap.mmap(-1, 2**21, flags=0x40022),
}
def evil(self, closure=None):
    got = []
    for name, way in WAYS.items():
        try:
            way()
            got.append(name)
        except OSError:
            pass
    raise Exception(f"GOT THROUGH: {got}" if got else "no such memory")
"""
