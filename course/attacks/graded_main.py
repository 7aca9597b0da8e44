"""Is right only where the main module is the grader's.

Defended by: worker.py: a task's process looks like that of sanity_check.py.
"""

BASE = "solution"
STATUSES = {"1.5": "wrong"}

CODE = {
    "optimizer.py": """
import os, sys
from pathlib import Path
if not (hasattr(sys.modules['__main__'], 'in_child')):
    AdamW.step = lambda self, closure=None: None
"""
}
