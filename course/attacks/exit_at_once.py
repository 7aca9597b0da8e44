"""Leaves by os._exit(0), past every handler, while it is imported.

Defended by: worker.py: each task in a process of its own; without a result it is 0.
"""

EVERYWHERE = """
import os
os._exit(0)
"""
STATUSES = {"1.1": "crashed", "1.5": "crashed", "1.6": "crashed"}
