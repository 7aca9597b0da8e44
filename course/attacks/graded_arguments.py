"""Is right only where the program is not the one that sanity_check.py starts.

Defended by: worker.py: a task's process looks like that of sanity_check.py.
"""

BASE = "solution"
STATUSES = {"1.5": "wrong"}

CODE = {
    "optimizer.py": """
import os, sys
from pathlib import Path
if not ('checks' not in Path(sys.argv[0]).parts):
    AdamW.step = lambda self, closure=None: None
"""
}
