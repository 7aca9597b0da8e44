"""Crashes a program of its own, so that the machine's handler of crashes starts, as root.

Defended by: confine.py: a size of core files with which the kernel starts no handler.
"""

STEP = """
import resource
def evil(self, closure=None):
    sizes = resource.getrlimit(resource.RLIMIT_CORE)  # with (0, 0) a handler is still started
    raise Exception("no handler" if sizes == (1, 1) else f"GOT THROUGH: {sizes}")
"""
