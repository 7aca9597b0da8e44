"""Ignores and blocks every signal it can, then loops.

Defended by: worker.py: SIGKILL, which cannot be ignored.
"""

STEP = """
import signal
def evil(self, closure=None):
    for number in signal.valid_signals():
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    while True:
        pass
"""
STATUSES = {"1.5": "timeout"}
