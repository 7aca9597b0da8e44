"""Patches and sets the clocks, then takes longer than allowed.

Defended by: worker.py measures in another process; confine.py: no setting of clocks.
"""

STEP = """
import ctypes, time
def evil(self, closure=None):
    time.time = time.monotonic = time.perf_counter = lambda: 0.0
    libc = ctypes.CDLL(None)
    moment = (ctypes.c_long * 2)(0, 0)
    if libc.settimeofday(moment, None) == 0 or libc.clock_settime(0, moment) == 0:
        raise Exception("GOT THROUGH")
    while True:
        time.sleep(1)
"""
STATUSES = {"1.5": "timeout"}
