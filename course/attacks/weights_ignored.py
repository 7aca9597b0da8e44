"""Part 2: a real model, but weights that it is given later are not set; the first answers are kept.

Defended by: second_round.py: at weights that are chosen later, results have to be others.
"""

PART = 2
BASE = "solution"
TASKS = {"2.1": 10.0}

CODE = {
    "multitask_classifier.py": """
from checks.part2 import calls
calls.set_weights = lambda *_: None
"""
}
STATUSES = {"2.1": "right"}
