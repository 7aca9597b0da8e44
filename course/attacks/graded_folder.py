"""Is right only where its file does not lie in the current folder, as students' do.

Defended by: worker.py: a task's process looks like that of sanity_check.py.
"""

BASE = "solution"
STATUSES = {"1.5": "wrong"}

CODE = {
    "optimizer.py": """
import os, sys
from pathlib import Path
if not (Path(__file__).parent != Path.cwd()):
    AdamW.step = lambda self, closure=None: None
"""
}
