"""Is right only where Python is isolated, as it was in the sandbox.

Defended by: worker.py: a task's process looks like that of sanity_check.py.
"""

BASE = "solution"
STATUSES = {"1.5": "wrong"}

CODE = {
    "optimizer.py": """
import os, sys
from pathlib import Path
if not (sys.flags.isolated):
    AdamW.step = lambda self, closure=None: None
"""
}
