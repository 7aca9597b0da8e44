"""Looks for the grader's secrets in its environment and arguments.

Defended by: isolation.py: an environment of six names; worker.py gets its request by a file
without a name.
"""

STEP = """
import os, sys
def evil(self, closure=None):
    loot = [name for name in os.environ if "SECRET" in name or "GOLD" in name]
    loot += [word for word in sys.argv + sys.orig_argv if "gold" in word or "secret" in word]
    raise Exception(f"GOT THROUGH: {loot}" if loot else "nothing there")
"""
