"""Judge Task 1.5: trajectories on prescribed gradients against the right ones.

Weight decay is left out of all rows but its own, so that it costs its own row only; it may come
before the update or after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from checks.graded_tasks import GradedTask
from checks.part1 import adamw_cases, adamw_mistakes
from course.grading.judging import judge
from course.grading.judging.judge import DECAY, OPTIMIZER_ROWS, PUBLIC
from course.grading.sandbox.runs import without_decay
from course.grading.types import Verdict


def judge_optimizer(
    entry: GradedTask,
    outputs: Mapping[str, Any],
    expected: Mapping[str, Mapping[str, Tensor]],
    seed: int,
) -> Verdict:
    """The verdict on a submission's optimizer.

    Args:
        outputs: of runs.optimizer, from the sandbox.
        expected: right trajectories by the order of weight decay.
        seed: of the hidden cases.
    """
    got = judge.of_run(outputs, "hidden")
    if errors := judge.errors_in(got):
        status = errors[0].kind if errors[0].kind in ("not started", "crashed") else "wrong"
        return judge.without_results(entry, status, errors[0].text)
    cases = {case.name: case for case in adamw_cases.make_cases(seed)}
    plain = {name: without_decay(case).name for name, case in cases.items()}
    plain["gradient"] = "gradient"
    right = expected["after"]  # without decay both orders are the same
    wrong = {name for name, key in plain.items() if not close(got.get(key), right[key])}
    shows = [name for name in cases if name == "decay" or name not in wrong]
    off = {
        order: [name for name in shows if not close(got.get(name), right[name])]
        for order, right in expected.items()
    }
    order = min(off, key=lambda order: len(off[order]))
    is_right = {row: wrong.isdisjoint(names) for row, names in OPTIMIZER_ROWS.items()}
    is_right[DECAY] = not off[order]
    about = {name: f"wrong: {case.about}" for name, case in cases.items()}
    about["gradient"] = "wrong: p.grad is changed"
    messages = [text for name, text in about.items() if name in wrong and name != "decay"]
    messages += [f"wrong weight decay: {cases[name].about}" for name in off[order]]
    public = judge.of_run(outputs, PUBLIC)
    mistakes, _ = adamw_mistakes.mistakes_in(public, adamw_mistakes.known_mistakes())
    return judge.verdict_of(entry, is_right, messages, mistakes if messages else [])


def close(got: Any, wanted: Tensor) -> bool:
    """Whether a trajectory is the wanted one; its shape is not broadcast, NaN is wrong."""
    if not isinstance(got, Tensor) or got.shape != wanted.shape:
        return False
    return torch.allclose(got.double(), wanted.double(), rtol=0.0, atol=adamw_cases.TOLERANCE)
