"""Is right only where variables say so that only the sandbox had.

Defended by: worker.py: a task's process looks like that of sanity_check.py.
"""

BASE = "solution"
STATUSES = {"1.5": "wrong"}

CODE = {
    "optimizer.py": """
import os, sys
from pathlib import Path
if not (os.environ.get('OMP_NUM_THREADS') == '1' and 'TMPDIR' in os.environ):
    AdamW.step = lambda self, closure=None: None
"""
}
