"""Deletes modules and replaces builtins, so that what follows it fails or agrees.

Defended by: worker.py: each task in a process of its own, the worker's own state is out of reach.
"""

STEP = """
import builtins, sys
def evil(self, closure=None):
    builtins.isinstance = lambda *_: True
    builtins.len = lambda *_: 0
    builtins.open = builtins.print = builtins.__import__ = lambda *_, **__: None
    for name in list(sys.modules):
        del sys.modules[name]
"""
CODE = {"bert.py": ""}
BASE = "solution"
TASKS = {"1.1": 20, "1.2": 10, "1.3": 15, "1.4": 15}
