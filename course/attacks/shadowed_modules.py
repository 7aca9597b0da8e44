"""Brings modules of the staff's, Python's and torch's names.

Defended by: intake.py takes the named files only; all others are the staff's.
"""

CODE = {"optimizer.py": ""}
EVIL = """
import os
os._exit(0)
"""
NAMES = (
    "utils.py",
    "numpy.py",
    "torch/__init__.py",
    "json.py",
    "checks.py",
    "checks/__init__.py",
    "checks/findings.py",
    "checks/part1/runners.py",
    "optimizer_test.py",
    "checks/graded_tasks.py",
    "safetensors/torch.py",
    "course/__init__.py",
    "course/grading/sandbox/runs.py",
    "course/grading/sandbox/worker.py",
    "base_bert.py",
    "config.py",
)
FILES = dict.fromkeys(NAMES, EVIL)
STATUSES = {"1.5": "not started"}
