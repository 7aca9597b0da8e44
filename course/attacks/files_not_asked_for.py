"""Brings files that load themselves or are loaded: of the staff's and Python's names, pickles.

Defended by: intake.py takes the named files only, all others are the staff's; nothing is ever
unpickled; isolation.py: no user's settings.
"""

CODE = {"optimizer.py": ""}
EVIL = """
import os
os._exit(0)
"""
PICKLE = """cos
system
(S'touch /tmp/GOT-THROUGH'
tR.
"""
NAMES = (
    "utils.py", "base_bert.py", "config.py", "optimizer_test.py", "checks.py", "checks/__init__.py",
    "checks/findings.py", "checks/graded_tasks.py", "checks/part1/functions.py",
    "course/__init__.py", "course/grading/sandbox/runs.py", "course/grading/sandbox/worker.py",
    "numpy.py", "json.py", "torch/__init__.py", "safetensors/torch.py",
    "conftest.py", "tests/conftest.py", "pytest.ini", "pyproject.toml", "evil.pth", ".pythonrc.py",
    "sitecustomize.py", "usercustomize.py", "__init__.py", "__main__.py",
)  # fmt: skip
PICKLES = (
    "sst-classifier.pt", "finetune-10-1e-05.pt", "weights.pkl", "model.safetensors",
    "pytorch_model.bin", "predictions/finetune-sst-dev-out.pkl",
)  # fmt: skip
FILES = dict.fromkeys(NAMES, EVIL) | dict.fromkeys(PICKLES, PICKLE)
STATUSES = {"1.5": "not started"}
