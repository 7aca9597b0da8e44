"""An exception whose text has 100 million characters, and one whose text takes for ever.

Defended by: checks/findings.py: describe cuts, worker.py: seconds and memory of the task.
"""

CODE = {
    "bert.py": """
def evil(self, *_):
    raise ValueError("x" * 10**8)
BertSelfAttention.attention = evil
""",
}
STEP = """
class Slow(Exception):
    def __str__(self):
        while True:
            pass
def evil(self, closure=None):
    raise Slow
"""
STATUSES = {"1.5": "timeout"}
