"""A graded function as every check sees it: run it on given inputs, get its outputs by name.

Names of outputs are "kind/what": "values/context" (in evaluation mode), "gradients/key",
"padding/context" (how much a change of padding changes it: 0), "dropout/context" (in training
mode), "inputs/key" (what was given, after the call). Nothing is judged here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from checks.errors import attempt
from checks.findings import Finding
from checks.fixed_dropout import FixedDropout, default_dtype
from checks.graded_tasks import GRADED_TASKS
from checks.references import load_references

KINDS = ("values", "gradients", "padding", "dropout", "inputs")
ERROR = "error"  # the name of an output: the exception with which the student's code ended
WHOLE = "whole model"  # no graded task: BertModel.forward
Inputs = Mapping[str, Tensor]  # by the names in sanity_check.data
Outputs = dict[str, Any]  # by name; what should be a tensor need not be one


@dataclass(frozen=True)
class Task:
    """How one function is run.

    Attributes:
        steps: runs the function that is installed now, call by call, and yields the outputs.
        judge: what is wrong with outputs for which comparing numbers would not say enough.
    """

    steps: Callable[[Inputs], Iterator[Outputs]]
    judge: Callable[[Outputs, Inputs], list[Finding]] | None = None

    def run(self, inputs: Inputs) -> Outputs:
        """All outputs of the function that is installed now; its exceptions pass through."""
        return {name: output for step in self.steps(inputs) for name, output in step.items()}


def task_of(task_id: str) -> Task:
    """The task of that id, or WHOLE; those of a later part come with its handout."""
    number = next((entry.part for entry in GRADED_TASKS if task_id.startswith(entry.id)), 1)
    return importlib.import_module(f"checks.part{number}.runs").TASKS[task_id]


def outputs_of(
    task_id: str,
    inputs: Inputs | None = None,
    dtype: torch.dtype = torch.float64,
    axis: int = -1,
) -> Outputs:
    """What the student's function computes, without a past; dropout leaves nothing to chance.

    An exception of the student's code is the output ERROR, next to those that were computed before.

    Args:
        inputs: by name, those that are stored if None.
        axis: along which FixedDropout drops positions.
    """
    task = task_of(task_id)
    given = load_references(dtype) if inputs is None else inputs
    outputs: Outputs = {}
    with default_dtype(dtype), FixedDropout(axis=axis):
        failed = attempt(lambda: [outputs.update(step) for step in task.steps(given)])
    if isinstance(failed, BaseException):
        outputs[ERROR] = failed
    return {k: v.detach() if isinstance(v, Tensor) else v for k, v in outputs.items()}
