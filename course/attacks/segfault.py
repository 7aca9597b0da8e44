"""Crashes the interpreter by ctypes.

Defended by: worker.py: each task in a process of its own.
"""

CODE = {
    "bert.py": """
import ctypes
BertLayer.add_norm = lambda *_: ctypes.string_at(0)
""",
    "optimizer.py": "",
}
BASE = "solution"
TASKS = {"1.1": 20, "1.4": 15, "1.5": 20}
STATUSES = {"1.2": "crashed"}
