"""Leaves with exit status 0 while it is imported, which is success to a shell.

Defended by: worker.py: an exit status is no evidence, only arrays are.
"""

EVERYWHERE = """
import sys
sys.exit(0)
"""
