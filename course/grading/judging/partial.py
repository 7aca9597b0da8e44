"""Points for what is right about a function of part 1 whose values are wrong.

A row besides the values counts where the function computes, on hidden inputs, what one known
mistake computes there, or the right results times a number: then the rest of it is known to be the
right function's. Every input and weight has to matter still, dropout has to act, and padding has to
be what the mask keeps out: what returns constants, or its input, is right about padding, too, and
gets nothing for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor

from checks.differences import difference
from checks.graded_tasks import GradedTask
from checks.part1 import compare
from course.answers import MISTAKES, installed_source, put, read_all
from course.grading.intake import parse
from course.grading.judging import judge
from course.grading.judging.hidden import LAYER, TOGETHER, Hidden, solve
from course.grading.sandbox.context import ROOT

RUN = f"{TOGETHER} float64"
TINY = -1e-300  # as a mask it hides nothing, and tells all the same where padding is
TOLERANCE = compare.TOLERANCES[torch.float64][0]
Outputs = Mapping[str, Any]


def add(
    entry: GradedTask, verdict: judge.Verdict, outputs: Outputs, sets: Mapping[str, Hidden]
) -> None:
    """Put the rows right that count; nobody else may use torch's default type meanwhile.

    Args:
        outputs: of the task, from the sandbox.
        sets: hidden inputs.
    """
    if verdict.status != "wrong" or verdict.rows.get("values", True):
        return
    run_outputs, together = judge.of_run(outputs, RUN), sets[TOGETHER]
    for source, factor in explanations(entry, verdict, run_outputs, together):
        wanted = outputs_of(entry, source, together.inputs, factor)
        if same(wanted, run_outputs, "values") and all_matters(wanted):
            right = rows_right(entry, source, factor, run_outputs, together)
            verdict.rows |= dict.fromkeys(right, True)
            return


def explanations(
    entry: GradedTask, verdict: judge.Verdict, run_outputs: Outputs, together: Hidden
) -> Iterator[tuple[str, float]]:
    """What the function may be: a source, and by what its results are multiplied."""
    if len(verdict.mistakes) == 1:
        for source in sources_of(entry.id, verdict.mistakes[0].name):
            yield source, 1.0
    for name, right in together.expected.items():
        got = run_outputs.get(name.removeprefix(f"{entry.id}/"))
        if not name.startswith(f"{entry.id}/values/") or not judge.same_form(got, right):
            continue
        factor = ((got * right).sum() / (right * right).sum()).item()
        if right.is_floating_point() and abs(factor - 1) > TOLERANCE and 1e-6 < abs(factor) < 1e6:
            yield (ROOT / entry.file).read_text(encoding="utf-8"), factor
            return


@cache
def sources_of(task_id: str, name: str) -> tuple[str, ...]:
    """Our solution's file with a known mistake in it, in each of the ways that bear its name."""
    with parse.ONE_AT_A_TIME:
        answers = [answer for answer in read_all(MISTAKES, task_id) if answer.name == name]
        return tuple(put(answer, version) for answer in answers for version in answer.versions)


def outputs_of(
    entry: GradedTask,
    source: str,
    inputs: dict[str, Tensor],
    factor: float = 1.0,
    keys_first: bool = False,
) -> dict[str, Any]:
    """What a function makes of hidden inputs; nothing where it ends in an exception.

    Args:
        keys_first: of dropout, which falls as where scores are (B, H, keys, queries).
    """
    options = {"alone": False} if entry.id == LAYER else {}
    try:
        with installed_source(entry.file, source):
            outputs = solve(entry.id, inputs, options, axis=-2 if keys_first else -1)
    except Exception:  # a mistake that raises is no function to compare with
        return {}
    results = [name for name in outputs if name.startswith(("values/", "dropout/", "gradients/"))]
    results = [name for name in results if outputs[name].is_floating_point()]
    return outputs | {name: factor * outputs[name] for name in results}


def same(wanted: Outputs, outputs: Outputs, kind: str) -> bool:
    """Whether all outputs of a kind are there, and are the wanted ones."""
    tolerance = 0.0 if kind == "inputs" else TOLERANCE
    names = [name for name in wanted if name.startswith(f"{kind}/")]
    return bool(names) and all(
        difference(kind, name, outputs.get(name), wanted[name], tolerance) is None for name in names
    )


def all_matters(outputs: Outputs) -> bool:
    """Whether every input and weight has a gradient that is not zero."""
    gradients = [value for name, value in outputs.items() if name.startswith("gradients/")]
    return bool(gradients) and all(bool(value.any()) for value in gradients)


def rows_right(
    entry: GradedTask, source: str, factor: float, run_outputs: Outputs, together: Hidden
) -> Iterator[str]:
    """Which rows besides the values are right."""
    right = {name.removeprefix(f"{entry.id}/"): value for name, value in together.expected.items()}
    if same(right, run_outputs, "inputs"):
        yield "inputs"
    for keys_first in (False, True):
        wanted = outputs_of(entry, source, together.inputs, factor, keys_first)
        if dropout_acts(wanted) and same(wanted, run_outputs, "dropout"):
            yield "dropout"
    if same(right, run_outputs, "padding") and padding_is_masked(entry, source, together):
        yield "padding"


def dropout_acts(outputs: Outputs) -> bool:
    """Whether no result of training mode is that of evaluation mode."""
    names = [name for name in outputs if name.startswith("dropout/")]
    pairs = [(outputs[name], outputs[name.replace("dropout/", "values/", 1)]) for name in names]
    return bool(pairs) and not any(torch.equal(trained, value) for trained, value in pairs)


def padding_is_masked(entry: GradedTask, source: str, together: Hidden) -> bool:
    """Whether padding, which changes nothing, would change something without the mask, if any."""
    mask = f"{entry.id}/inputs/mask"
    if mask not in together.inputs:
        return True
    without = outputs_of(
        entry, source, together.inputs | {mask: together.inputs[mask].clamp(min=TINY)}
    )
    changes = [value for name, value in without.items() if name.startswith("padding/")]
    return any(bool((change.abs() > TOLERANCE).any()) for change in changes)
