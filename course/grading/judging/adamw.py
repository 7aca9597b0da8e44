"""Judge Task 1.5: trajectories on prescribed gradients against the right ones.

Only the cases of the row "weight decay" have any, so that it costs that row only. It may come
before the update or after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from checks import known
from checks.compare import is_close
from checks.graded_tasks import GradedTask
from checks.part1.adamw_checks import KEPT, TOLERANCE, make_cases
from checks.references import under
from course.grading.judging import judge
from course.grading.judging.judge import DECAY, OPTIMIZER_ROWS, PUBLIC
from course.grading.types import Verdict

NEEDS = {  # cases of weight decay → those without that have to be right to tell of it
    "decay/decay_uncorrected": {"values/uncorrected"},
    "decay/decay_of_groups": {"values/groups", "values/schedule", "values/missing_gradients"},
}


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
    got = under("hidden|", outputs)
    if error := judge.error_in(got):
        return judge.stopped(entry, error) or judge.without_results(entry, "wrong", error.text)
    right = expected["after"]  # without decay both orders are the same
    about = {case.output: case.about for case in make_cases(seed)} | {KEPT: "p.grad afterwards"}
    decays = {name for name in about if name.startswith("decay/")}
    wrong = {name for name in about if not is_close(got.get(name), right[name], TOLERANCE)} - decays
    shows = [name for name in about if name in decays and wrong.isdisjoint(NEEDS.get(name, ()))]
    off = min(
        (
            [name for name in shows if not is_close(got.get(name), paths[name], TOLERANCE)]
            for paths in expected.values()
        ),
        key=len,
    )
    is_right = {row: wrong.isdisjoint(names) for row, names in OPTIMIZER_ROWS.items()}
    is_right[DECAY] = not off
    messages = [f"trajectory ({about[name]}): wrong" for name in about if name in {*wrong, *off}]
    shown = under(f"{PUBLIC}|", outputs)
    shown = {name: shown.get(name) for name in about}
    mistakes = known.find(entry.id, shown)[0] if messages else []
    return judge.verdict_of(entry, is_right, messages[:4], mistakes)
