"""Fresh inputs for grading, and the right answers to them by our own solution.

Both live in the grader's process only; of a set, the inputs alone go into the sandbox. That the
solution is right is what the public references are for, which transformers and a NumPy program
made.
"""

from __future__ import annotations

from dataclasses import dataclass
from unittest import mock

import torch
from torch import Tensor

from checks.compare import KEYS_FIRST
from checks.graded_tasks import GRADED_TASKS, GradedTask
from checks.inputs import make_inputs
from checks.part1 import adamw_checks
from checks.task import outputs_of
from course.switches import adamw
from optimizer import AdamW

OWN, SOLVED = "own", "solved"  # the latter is the classifier's forward with our __init__
LAYER, ATTENTION = "bert.layer", "bert.attention"


@dataclass(frozen=True)
class Hidden:
    """Inputs by name, and what a correct function makes of them: ``task id/kind/output``."""

    inputs: dict[str, Tensor]
    expected: dict[str, Tensor]


def make(seed: int, part: int = 1) -> Hidden:
    """The inputs of one seed, and what our own functions of a part make of them."""
    inputs = make_inputs(seed)
    expected: dict[str, Tensor] = {}
    for entry in (e for e in GRADED_TASKS if e.part == part and e.file != "optimizer.py"):
        for task_id in runs_of(entry).values():
            outputs = outputs_of(task_id, inputs)
            if task_id == ATTENTION:  # where scores are (B, H, keys, queries), dropout falls so
                along_queries = outputs_of(task_id, inputs, axis=-2)
                name = "dropout/context"
                outputs[name + KEYS_FIRST] = along_queries[name]
            expected |= {f"{task_id}/{key}": value for key, value in outputs.items()}
    return Hidden(inputs, expected)


def runs_of(entry: GradedTask) -> dict[str, str]:
    """The ways in which a task is run: name → the id of the run, see checks/task.py."""
    if entry.id == LAYER:
        return {"alone": LAYER, "whole": f"{LAYER}, whole"}
    if entry.id == "classifier.forward":
        return {OWN: entry.id, "whole": f"{entry.id}, whole", SOLVED: entry.id}
    return {OWN: entry.id}


# ---------------------------------------------------------------------------------------------
# The optimizer


def trajectories(seed: int) -> dict[str, dict[str, Tensor]]:
    """The right outputs of the optimizer's task by the order of weight decay; both are right."""
    inputs = {adamw_checks.SEED: torch.tensor(seed)}
    after = adamw_checks.TASK.run(inputs)
    before = frozenset({"decay_before"})
    with mock.patch.object(AdamW, "step", lambda *given: adamw.step(before, *given)):
        return {"after": after, "before": adamw_checks.TASK.run(inputs)}
