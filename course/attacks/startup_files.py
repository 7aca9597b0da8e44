"""Brings files that load themselves: conftest, sitecustomize, .pth, pytest.ini, __init__.

Defended by: intake.py takes the named files only; python -I reads none of these.
"""

CODE = {"optimizer.py": ""}
EVIL = """
import os, sys
sys.modules["judged"] = True
os._exit(0)
"""
NAMES = (
    "conftest.py",
    "sitecustomize.py",
    "usercustomize.py",
    "__init__.py",
    "__main__.py",
    "evil.pth",
    "pyproject.toml",
    "pytest.ini",
    "tests/conftest.py",
    ".pythonrc.py",
)
FILES = dict.fromkeys(NAMES, EVIL)
STATUSES = {"1.5": "not started"}
