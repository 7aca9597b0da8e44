"""Loops for ever in Python.

Defended by: worker.py: seconds of each task.
"""

CODE = {
    "optimizer.py": """
def evil(self, closure=None):
    while True:
        try:
            pass
        except BaseException:
            pass

AdamW.step = evil
""",
}
STATUSES = {"1.5": "timeout"}
