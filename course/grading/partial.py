"""Points for what is right about a function of part 1 whose values are wrong.

A row besides the values counts where the function computes, on hidden inputs, what one known
mistake computes there, so that the rest of it is known to be the right function's. In that mistake
every input and weight has to matter still, and of dropout that it acts: what returns constants or
its input is right about padding, too, and gets nothing for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor

from checks.differences import difference
from checks.graded_tasks import GradedTask
from checks.part1 import functions
from course.answers import MISTAKES, installed_source, put, read_all
from course.grading import judge, parse
from course.grading.hidden import LAYER, TOGETHER, Hidden, solve

RUN = f"{TOGETHER} float64"
TINY = -1e-300  # added to scores it changes none of them, and yet it is a mask
Outputs = Mapping[str, Any]


def add(
    entry: GradedTask, verdict: judge.Verdict, outputs: Outputs, sets: Mapping[str, Hidden]
) -> None:
    """Put the rows right that count; nobody else may use torch's default type meanwhile.

    Args:
        outputs: of the task, from the sandbox.
        sets: hidden inputs.
    """
    if verdict.status != "wrong" or verdict.rows["values"] or len(verdict.mistakes) != 1:
        return
    found, one = judge.of_run(outputs, RUN), sets[TOGETHER]
    for source in sources_of(entry.id, verdict.mistakes[0].name):
        mistaken = outputs_of(entry, source, one.inputs)
        if same(mistaken, found, "values") and all_matters(mistaken):
            verdict.rows |= dict.fromkeys(rows_right(entry, source, mistaken, found, one), True)
            return


@cache
def sources_of(task_id: str, name: str) -> tuple[str, ...]:
    """Our solution's file with a known mistake in it, in each of the ways that bear its name."""
    with parse.ONE_AT_A_TIME:
        answers = [answer for answer in read_all(MISTAKES, task_id) if answer.name == name]
        return tuple(put(answer) for answer in answers)


def outputs_of(entry: GradedTask, source: str, inputs: dict[str, Tensor]) -> dict[str, Any]:
    """What a mistaken function makes of hidden inputs; nothing where it ends in an exception."""
    options = {"alone": False} if entry.id == LAYER else {}
    try:
        with installed_source(entry.file, source):
            return solve(entry.id, inputs, options)
    except Exception:  # a mistake that raises is no function to compare with
        return {}


def same(wanted: Outputs, found: Outputs, kind: str) -> bool:
    """Whether all outputs of a kind are there, and are the wanted ones."""
    tolerance = 0.0 if kind == "inputs" else functions.TOLERANCES[torch.float64][0]
    names = [name for name in wanted if name.startswith(f"{kind}/")]
    return bool(names) and all(
        difference(kind, name, found.get(name), wanted[name], tolerance) is None for name in names
    )


def all_matters(mistaken: Outputs) -> bool:
    """Whether every input and weight has a gradient that is not zero."""
    gradients = [value for name, value in mistaken.items() if name.startswith("gradients/")]
    return bool(gradients) and all(
        isinstance(value, Tensor) and bool(value.any()) for value in gradients
    )


def rows_right(
    entry: GradedTask, source: str, mistaken: Outputs, found: Outputs, one: Hidden
) -> list[str]:
    """Which rows besides the values are right."""
    rows, prefix = [], f"{entry.id}/"
    given = {name.removeprefix(prefix): tensor for name, tensor in one.expected.items()}
    if same(given, found, "inputs"):
        rows.append("inputs")
    acts = [n for n in mistaken if n.startswith("dropout/")]
    acts = [not torch.equal(mistaken[n], mistaken[n.replace("dropout", "values")]) for n in acts]
    if acts and all(acts) and same(mistaken, found, "dropout"):
        rows.append("dropout")
    if same(mistaken, found, "padding") and padding_is_masked(entry, source, mistaken, one):
        rows.append("padding")
    return rows


def padding_is_masked(entry: GradedTask, source: str, mistaken: Outputs, one: Hidden) -> bool:
    """Whether padding changes nothing with the mask, and something without it."""
    mask = f"{entry.id}/inputs/mask"
    if mask not in one.inputs or any(_padding(mistaken)):
        return False
    without = one.inputs | {mask: one.inputs[mask].clamp(min=TINY)}
    return any(_padding(outputs_of(entry, source, without)))


def _padding(outputs: Outputs) -> list[bool]:
    tolerance = functions.TOLERANCES[torch.float64][0]
    changes = [value for name, value in outputs.items() if name.startswith("padding/")]
    return [bool((change.abs() > tolerance).any()) for change in changes]
