"""Judge Task 1.5: what is right about an optimizer keeps its points, whatever else is wrong.

Gradients are prescribed, so what an update takes off a parameter does not depend on weight decay.
Decay is judged by what it adds to the optimizer's own update. Where the update is wrong, so are the
other rows: from its own update in a plain run follows how it should move in each case. Of an
optimizer that is one known mistake in all it computes, one row is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from checks.graded_tasks import GradedTask
from checks.part1 import adamw_cases, adamw_mistakes
from checks.part1.adamw_cases import Case
from course.answers import installed_source
from course.grading.judging import judge, partial
from course.grading.judging.judge import DECAY, KEPT, OPTIMIZER_ROWS, PUBLIC, Verdict
from course.grading.sandbox.runs import (
    make_cases,
    optimizer,
    plain_run,
    steps_with_gradient,
    without_decay,
)

UPDATE = next(iter(OPTIMIZER_ROWS))
Trajectories = Mapping[str, Any]


def judge_optimizer(
    entry: GradedTask,
    outputs: Mapping[str, Any],
    expected: Mapping[str, Mapping[str, Tensor]],
    seed: int,
) -> Verdict:
    """The rows of a submission's optimizer; nobody else may use torch meanwhile.

    Args:
        outputs: of runs.optimizer, from the sandbox.
        expected: right trajectories by the order of weight decay.
        seed: of the hidden cases.
    """
    trajectories = judge.of_run(outputs, "hidden")
    if errors := judge.errors_in(trajectories):
        status = errors[0].kind if errors[0].kind in ("not started", "crashed") else "wrong"
        return judge.nothing(entry, status, errors[0].text)
    cases = {case.name: case for case in make_cases(seed)}
    wanted = expected["after"]  # without decay both orders are the same
    wrong = {
        name
        for name, case in cases.items()
        if not close(trajectories.get(plain := without_decay(case).name), wanted[plain])
    }
    if not close(trajectories.get("gradient"), wanted["gradient"]):
        wrong.add("gradient")
    if not wrong.isdisjoint(OPTIMIZER_ROWS[UPDATE]) and remembers(trajectories, cases):
        own = {name for name in wrong & cases.keys() if follows(trajectories, cases[name], seed)}
        wrong -= own - {*OPTIMIZER_ROWS[UPDATE]}
    right = {row: wrong.isdisjoint(names) for row, names in OPTIMIZER_ROWS.items()}
    decayed = {order: wrong_decay(trajectories, cases, wrong, order, seed) for order in expected}
    order = min(decayed, key=lambda order: len(decayed[order]))
    right[DECAY] = not decayed[order]
    right[KEPT] &= sum(right.values()) > 1  # what does nothing changes no gradient either
    if all(right.values()):
        return Verdict("right", right, [f"convention: {adamw_cases.ORDERS[order]}"])
    about = {name: f"wrong: {case.about}" for name, case in cases.items()}
    about["gradient"] = "wrong: p.grad is changed"
    messages = [about[name] for name in about if name in wrong and name != "decay"]
    messages += [f"wrong weight decay: {cases[name].about}" for name in decayed[order]]
    public, known = judge.of_run(outputs, PUBLIC), adamw_mistakes.known_mistakes()
    exceptions = dict.fromkeys(text for text in public.values() if isinstance(text, str))
    messages = [*list(exceptions)[:1], *messages]
    mistakes, _ = adamw_mistakes.mistakes_in(public, known)
    lost = [row for row in right if not right[row]]
    if len(mistakes) == 1 and len(lost) > 1:
        if is_known(entry, mistakes[0].name, trajectories, seed, right[DECAY]):
            right |= dict.fromkeys(lost[1:], True)
    return Verdict("wrong", right, messages[:4], mistakes)


def close(got: Any, wanted: Tensor) -> bool:
    """Whether a trajectory is the wanted one; its shape is not broadcast."""
    if not isinstance(got, Tensor) or got.shape != wanted.shape:
        return False
    off = (got.double() - wanted).abs()
    return bool((off <= adamw_cases.TOLERANCE).all())


# ---------------------------------------------------------------------------------------------
# From an optimizer's own update


def columns(case: Case, values: Any) -> list[Tensor]:
    """A trajectory by parameter; nothing where it has another shape."""
    sizes = [int(np.prod(shape, dtype=int)) for shape in case.shapes]
    if not isinstance(values, Tensor) or values.shape != (case.steps, sum(sizes)):
        return []
    return list(values.double().split(sizes, dim=1))


def updates(case: Case, values: Any, seed: int) -> list[Tensor]:
    """What each step added to each parameter: (steps, numbers)."""
    moved = []
    for index, column in enumerate(columns(case, values)):
        start = torch.as_tensor(adamw_cases.start_value(index, case.shapes[index], seed))
        moved.append(column.diff(dim=0, prepend=start.reshape(1, -1)))
    return moved


def remembers(trajectories: Trajectories, cases: Mapping[str, Case]) -> bool:
    """Whether the last update depends on which gradients came before; nothing else is AdamW."""
    last = []
    for index in (0, 1):  # the last step is the same, those before it are not
        run = plain_run(cases["missing_gradients"], index)
        parts = columns(run, trajectories.get(run.name))
        last += [torch.cat([part[-1] - part[-2] for part in parts])] if parts else []
    return len(last) == 2 and not torch.allclose(*last, rtol=0, atol=adamw_cases.TOLERANCE)


def follows(trajectories: Trajectories, case: Case, seed: int) -> bool:
    """Whether a case without decay is what the optimizer's own plain runs make of it."""
    moved = updates(case, trajectories.get(without_decay(case).name), seed)
    for index, got in enumerate(moved):
        run, present = plain_run(case, index), steps_with_gradient(case, index)
        own = updates(run, trajectories.get(run.name), seed)
        group = run.groups[0].settings
        wanted = torch.zeros_like(got)
        for at, step in enumerate(present if own else ()):
            factor = 0.5 if 0 < case.halve_lr_at <= step else 1.0
            if not case.groups[0].settings.get("correct_bias", True):
                first, second = group.get("betas", (0.9, 0.999))
                factor *= (1 - first**step) / (1 - second**step) ** 0.5
            wanted[step - 1] = factor * own[index][at]
        if not close(got, wanted):
            return False
    return bool(moved)


def wrong_decay(
    trajectories: Trajectories, cases: Mapping[str, Case], wrong: set[str], order: str, seed: int
) -> list[str]:
    """The cases in which decay adds something else to the update than it should.

    A case that is wrong without decay shows nothing about it, but for the one that is about decay.

    Args:
        order: whether the decay comes before or after the update.
    """
    names = [name for name in cases if name == "decay" or name not in wrong]
    return [name for name in names if not decays(trajectories, cases[name], order, seed)]


def decays(trajectories: Trajectories, case: Case, order: str, seed: int) -> bool:
    """Whether a case is its own update, and the decay that belongs to it."""
    moved = updates(case, trajectories.get(without_decay(case).name), seed)
    got = columns(case, trajectories.get(case.name))
    groups = [group for group in case.groups for _ in group.shapes]
    for index, (column, own) in enumerate(zip(got, moved, strict=bool(got and moved))):
        settings, present = groups[index].settings, steps_with_gradient(case, index)
        start = torch.as_tensor(adamw_cases.start_value(index, case.shapes[index], seed))
        value, path = start.flatten().double(), []
        for step, update in enumerate(own, 1):
            halved = 0.5 if 0 < case.halve_lr_at <= step else 1.0
            share = halved * settings["lr"] * settings.get("weight_decay", 0.0)
            keep = 1 - share * (step in present)
            value = (value + update) * keep if order == "after" else value * keep + update
            path.append(value)
        if not close(column, torch.stack(path)):
            return False
    return any(bool(own[-1].any()) for own in moved)  # what only decays is not an optimizer


# ---------------------------------------------------------------------------------------------
# One known mistake


def is_known(
    entry: GradedTask, name: str, trajectories: Trajectories, seed: int, decay_is_right: bool
) -> bool:
    """Whether all that an optimizer computes on hidden cases is what a known mistake computes.

    Args:
        decay_is_right: then it may come in either order, and is not compared.
    """
    for source in partial.sources_of(entry.id, name):
        with installed_source(entry.file, source):
            wanted = judge.of_run(optimizer({}, seed), "hidden")
        names = [case.name for case in make_cases(seed)]
        compared = [f"{name} without decay" for name in names] + names * (not decay_is_right)
        if all(same(trajectories.get(n), wanted.get(n)) for n in (*compared, "gradient")):
            return True
    return False


def same(got: Any, wanted: Any) -> bool:
    """Whether two outputs are alike, NaN and lacking ones too."""
    if not isinstance(wanted, Tensor) or not isinstance(got, Tensor):
        return got is None and wanted is None
    tolerance = {"rtol": 0.0, "atol": adamw_cases.TOLERANCE, "equal_nan": True}
    return got.shape == wanted.shape and torch.allclose(got.double(), wanted.double(), **tolerance)
