"""Returns single numbers that fit every shape.

Defended by: judge.py compares shapes first.
"""

FUNCTIONS = """
def evil(self, first, *_):
    return (first.sum() * 0 if first.is_floating_point() else torch.zeros(())).reshape(1, 1, 1)
"""
CODE = {
    "optimizer.py": """
import numpy
from checks.part1 import adamw_cases, adamw_mistakes
adamw_cases.run_case = adamw_mistakes.run_case = lambda *_, **__: numpy.zeros((1, 1))
AdamW.step = lambda self, closure=None: None
""",
}
