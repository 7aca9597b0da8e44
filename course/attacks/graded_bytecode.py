"""Is right only where Python writes no bytecode, as in the sandbox.

Defended by: worker.py: a task's process looks like that of sanity_check.py.
"""

BASE = "solution"
STATUSES = {"1.5": "wrong"}

CODE = {
    "optimizer.py": """
import os, sys
from pathlib import Path
if not (sys.dont_write_bytecode or sys.flags.dont_write_bytecode):
    AdamW.step = lambda self, closure=None: None
"""
}
