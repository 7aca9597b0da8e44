"""Exits, each function in its own way, while it is graded; the optimizer is honest.

Defended by: worker.py: each task in a process of its own.
"""

CODE = {
    "bert.py": """
import os, sys
def leave(*_, **__):
    os._exit(0)
def quit_(*_, **__):
    sys.exit()
BertSelfAttention.attention = leave
BertLayer.add_norm = quit_
BertLayer.forward = lambda *_: exec("raise GeneratorExit")
BertModel.embed = leave
""",
    "optimizer.py": "",
}
BASE = "solution"
TASKS = {"1.5": 20}
STATUSES = {"1.1": "crashed", "1.2": "wrong", "1.3": "crashed", "1.4": "crashed"}
