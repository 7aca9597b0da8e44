"""Is right only where variables say so that only the sandbox had.

Defended by: worker.py: a task's process looks like that of sanity_check.py.
"""

BASE = "solution"
TASKS = {"1.1": 20.0, "1.2": 10.0, "1.3": 15.0, "1.4": 15.0, "1.6": 5.0, "1.7": 15.0}

CODE = {
    "optimizer.py": """
import os, sys
from pathlib import Path
if not (os.environ.get('OMP_NUM_THREADS') == '1' and 'TMPDIR' in os.environ):
    AdamW.step = lambda self, closure=None: None
"""
}
