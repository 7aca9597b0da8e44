"""The checks of part 3: lessons/modern_bert.py, one function at a time, as those of part 1 are.

``check(task)`` gives the findings. references.data has inputs, correct results by transformers, and
the fingerprints of known mistakes; runners.py runs the functions. It does not know how any task is
solved.
"""

from __future__ import annotations

from checks.findings import Finding
from checks.graded_tasks import GradedTask
from checks.part1 import tasks

KINDS = {  # of a task's outputs
    "modern.rotary": ("values", "gradients", "inputs"),
    "modern.local_mask": ("values",),
    "modern.geglu": ("values", "gradients", "dropout", "inputs"),
}
CHECKED = {
    "modern.rotary": "values, gradients, type",
    "modern.local_mask": "four lengths and windows",
    "modern.geglu": "values, gradients, dropout",
}
check = tasks.check  # what is wrong with the student's function for a task


def warnings_of(entry: GradedTask) -> list[Finding]:
    """What costs no points but matters: nothing in this part."""
    return []
