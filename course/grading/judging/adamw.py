"""Judge Task 1.5: what is right about an optimizer keeps its points, whatever else is wrong.

Gradients are prescribed, so what an update takes off a parameter does not depend on weight decay.
Decay is judged by what it adds to the optimizer's own update. Where the update is wrong, so are the
other rows: from its own update in a plain run follows how it should move in each case. Of an
optimizer that is one known mistake in all it computes, one row is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from checks.graded_tasks import GradedTask
from checks.part1 import adamw_cases, adamw_mistakes
from checks.part1.adamw_cases import Case, make_cases
from course.answers import installed_source
from course.grading.judging import judge, partial
from course.grading.judging.judge import DECAY, KEPT, OPTIMIZER_ROWS, PUBLIC, Verdict
from course.grading.sandbox.runs import (
    optimizer,
    plain_run,
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
    if not wrong.isdisjoint(OPTIMIZER_ROWS[UPDATE]) and remembers(trajectories, cases, seed):
        own = {name for name in wrong & cases.keys() if follows(trajectories, cases[name], seed)}
        wrong -= own - {*OPTIMIZER_ROWS[UPDATE]}
    right = {row: wrong.isdisjoint(names) for row, names in OPTIMIZER_ROWS.items()}
    shows = [case for name, case in cases.items() if name == "decay" or name not in wrong]
    off = {o: [c for c in shows if not decays(trajectories, c, o, seed)] for o in expected}
    order = min(off, key=lambda order: len(off[order]))
    right[DECAY] = not off[order]
    right[KEPT] &= sum(right.values()) > 1  # what does nothing changes no gradient either
    if all(right.values()):
        return Verdict("right", right, [f"convention: {adamw_cases.ORDERS[order]}"])
    about = {name: f"wrong: {case.about}" for name, case in cases.items()}
    about["gradient"] = "wrong: p.grad is changed"
    messages = [about[name] for name in about if name in wrong and name != "decay"]
    messages += [f"wrong weight decay: {case.about}" for case in off[order]]
    public, known = judge.of_run(outputs, PUBLIC), adamw_mistakes.known_mistakes()
    exceptions = dict.fromkeys(text for text in public.values() if isinstance(text, str))
    messages = [*list(exceptions)[:1], *messages]
    mistakes, _ = adamw_mistakes.mistakes_in(public, known)
    lost = [row for row in right if not right[row]]
    is_one_mistake = len(mistakes) == 1 and len(lost) > 1
    if is_one_mistake and not stands_still(trajectories, cases["decay"], seed):
        if is_known(entry, mistakes[0].name, trajectories, seed, right[DECAY]):
            right |= dict.fromkeys(lost[1:], True)
    return Verdict("wrong", right, messages[:4], mistakes)


def close(got: Any, wanted: Any, nan: bool = False) -> bool:
    """Whether a trajectory is the wanted one; its shape is not broadcast, NaN equals ``nan``."""
    if not isinstance(got, Tensor) or got.shape != getattr(wanted, "shape", None):
        return False
    tolerance = {"rtol": 0.0, "atol": adamw_cases.TOLERANCE, "equal_nan": nan}
    return torch.allclose(got.double(), wanted.double(), **tolerance)


# ---------------------------------------------------------------------------------------------
# From an optimizer's own update


def start_of(case: Case, index: int, seed: int) -> Tensor:
    """A parameter before the first step: (1, numbers)."""
    return torch.as_tensor(adamw_cases.start_value(index, case.shapes[index], seed)).reshape(1, -1)


def updates(case: Case, values: Any, seed: int) -> list[Tensor]:
    """What each step added to each parameter: (steps, numbers); [] of another shape."""
    starts = [start_of(case, index, seed) for index in range(len(case.shapes))]
    sizes = [start.shape[1] for start in starts]
    if not isinstance(values, Tensor) or values.shape != (case.steps, sum(sizes)):
        return []
    parts = values.double().split(sizes, dim=1)
    return [part.diff(dim=0, prepend=start) for part, start in zip(parts, starts, strict=True)]


def remembers(trajectories: Trajectories, cases: Mapping[str, Case], seed: int) -> bool:
    """Whether the last update depends on which gradients came before; nothing else is AdamW."""
    runs = [plain_run(cases["missing_gradients"], index) for index in (0, 1)]
    moved = [updates(run, trajectories.get(run.name), seed) for run in runs]
    if not all(moved):
        return False
    first, second = (torch.cat([part[-1] for part in parts]) for parts in moved)
    return not close(first, second)


def stands_still(trajectories: Trajectories, case: Case, seed: int) -> bool:
    """Whether a case without decay changes no parameter: then it is not an optimizer."""
    moved = updates(case, trajectories.get(without_decay(case).name), seed)
    return bool(moved) and not any(own.any() for own in moved)


def halved(case: Case, step: int) -> float:
    """By how much a step's learning rate is less than the case's."""
    return 0.5 if 0 < case.halve_lr_at <= step else 1.0


def follows(trajectories: Trajectories, case: Case, seed: int) -> bool:
    """Whether a case without decay is what the optimizer's own plain runs make of it."""
    moved = updates(case, trajectories.get(without_decay(case).name), seed)
    for index, got in enumerate(moved):
        run, wanted = plain_run(case, index), torch.zeros_like(got)
        own = updates(run, trajectories.get(run.name), seed)
        first, second = run.groups[0].settings.get("betas", (0.9, 0.999))
        for at, step in enumerate(run.order if own else ()):
            factor = halved(case, step)
            if not case.groups[0].settings.get("correct_bias", True):
                factor *= (1 - first**step) / (1 - second**step) ** 0.5
            wanted[step - 1] = factor * own[index][at]
        if not close(got, wanted):
            return False
    return bool(moved)


def decays(trajectories: Trajectories, case: Case, order: str, seed: int) -> bool:
    """Whether each step is the optimizer's own update, and the decay that belongs to it.

    Args:
        order: whether the decay comes before or after the update.
    """
    moved = updates(case, trajectories.get(without_decay(case).name), seed)
    decayed = updates(case, trajectories.get(case.name), seed)
    groups = [group.settings for group in case.groups for _ in group.shapes]
    if not moved or not decayed or not any(own[-1].any() for own in moved):
        return False  # what only decays is not an optimizer
    for index, (got, own) in enumerate(zip(decayed, moved, strict=True)):
        rate = groups[index]["lr"] * groups[index].get("weight_decay", 0.0)
        shares = torch.zeros(case.steps, 1, dtype=got.dtype)
        for step in plain_run(case, index).order:
            shares[step - 1] = rate * halved(case, step)
        before = start_of(case, index, seed) + got.cumsum(dim=0) - got
        if not close(got, own - shares * (before + own if order == "after" else before)):
            return False
    return True


# ---------------------------------------------------------------------------------------------
# One known mistake


def is_known(
    entry: GradedTask, name: str, trajectories: Trajectories, seed: int, decay_is_right: bool
) -> bool:
    """Whether all that an optimizer computes on hidden cases is what a known mistake computes.

    Args:
        decay_is_right: then it may come in either order, and is not compared.
    """
    names = [case.name for case in make_cases(seed)]
    compared = [*(f"{name} without decay" for name in names), "gradient"]
    compared += names * (not decay_is_right)
    for source in partial.sources_of(entry.id, name):
        with installed_source(entry.file, source):
            wanted = judge.of_run(optimizer({}, seed), "hidden")
        pairs = [(trajectories.get(each), wanted.get(each)) for each in compared]
        if all(got is right or close(got, right, nan=True) for got, right in pairs):
            return True
    return False
