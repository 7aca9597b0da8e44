"""Is right only where modules of the grader's are loaded.

Defended by: worker.py: a task's process looks like that of sanity_check.py.
"""

BASE = "solution"
STATUSES = {"1.5": "wrong"}

CODE = {
    "optimizer.py": """
import os, sys
from pathlib import Path
if not (any(name.startswith('course') for name in sys.modules)):
    AdamW.step = lambda self, closure=None: None
"""
}
