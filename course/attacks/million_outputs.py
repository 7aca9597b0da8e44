"""Has the runners return a million outputs.

Defended by: worker.py: a child without a result in time has 0; one.py: a largest header.
"""

FUNCTIONS = """
from checks.part1 import functions
many = {f"values/{number}": None for number in range(1_000_000)}
for task_id in list(functions.RUNS):
    functions.RUNS[task_id] = lambda *_, **__: many
def evil(self, *_):
    return None
"""
