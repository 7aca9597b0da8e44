"""Whether another answer to a task of part 1 does what a right one does, on inputs never seen.

The checks have no part in it: both answers are run on random inputs of several seeds, and what they
return, their gradients, their dropout along either axis and their inputs afterwards are compared.
Of the optimizer it is the trajectory, in either order of weight decay.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from checks.graded_tasks import GradedTask
from checks.hunt.equivalence import (
    INIT,
    RUNS,
    SEEDS,
    TOLERANCES,
    Outputs,
    compare,
    run,
    same,
)
from checks.hunt.installed import installed_source
from checks.part1 import adamw_cases
from course.grading.judging import hidden

MADE = ("values/option", "values/Linear", "sizes")  # what __init__ makes, dropout left out


def equivalent(entry: GradedTask, source: str, right: str) -> bool:
    """Whether a task's file does what a right one does."""
    if entry.id == "optimizer.step":
        return optimizes(source)
    whole = entry.id != INIT or not keeps_probability(run(entry, source, *RUNS[0], torch.float64))
    return compare(entry, source, right, ("",) if whole else MADE).status == "same"


def keeps_probability(outputs: Outputs) -> bool:
    """Whether __init__ makes no dropout, but keeps its probability, for a forward to come."""
    kept = outputs.get("values/dropout: made, or its probability kept")
    return kept is not None and bool(kept.all()) and not len(outputs["rates"])


# ---------------------------------------------------------------------------------------------
# The optimizer


def optimizes(source: str) -> bool:
    """Whether an optimizer.py takes the right steps on other cases than the checks' own."""
    try:
        with installed_source("optimizer.py", source) as module:
            return all(holds(module.AdamW) for holds in (walks, keeps_gradients, closes, is_dense))
    except (Exception, SystemExit):
        return False


@functools.cache
def trajectories(seed: int) -> tuple[list[adamw_cases.Case], dict[str, dict[str, Tensor]]]:
    """Cases of a seed, and of each order of weight decay what is right."""
    return adamw_cases.make_cases(seed), hidden.trajectories(seed)


def walks(opt_class: type) -> bool:
    """Whether all trajectories are right, for one order of weight decay."""
    orders = set(adamw_cases.ORDERS)
    for seed, dtype in [*((seed, torch.float64) for seed in SEEDS), (SEEDS[0], torch.float32)]:
        cases, right = trajectories(seed)
        for case in cases:
            path = torch.from_numpy(adamw_cases.run_case(opt_class, case, dtype, seed))
            orders &= {o for o in orders if same(path, right[o][case.name], TOLERANCES[dtype])}
    return bool(orders)


def keeps_gradients(opt_class: type) -> bool:
    """Whether gradients are left as they are."""
    parameter = torch.nn.Parameter(torch.tensor([[0.5, -2.0, 3.0]]))
    optimizer = opt_class([parameter], lr=0.3, weight_decay=0.2)
    for step in range(3):
        grad = torch.tensor([[1.0, -0.25, 0.0]]) * (step + 1)
        parameter.grad = grad.clone()
        optimizer.step()
        if parameter.grad is None or not torch.equal(parameter.grad, grad):
            return False
    return optimizer.step() is None


def closes(opt_class: type) -> bool:
    """Whether a closure is called once, with gradients, before the step, and its loss returned."""
    parameter = torch.nn.Parameter(torch.tensor([3.0]))
    optimizer = opt_class([parameter], lr=0.1)
    losses: list[Tensor] = []

    def closure() -> Tensor:
        losses.append(parameter.square().sum())
        losses[-1].backward()
        return losses[-1]

    returned = optimizer.step(closure)
    return len(losses) == 1 and returned is losses[0] and abs(parameter.item() - 2.9) < 1e-4


def is_dense(opt_class: type) -> bool:
    """Whether sparse gradients are refused, by an error of the optimizer's own."""
    parameter = torch.nn.Parameter(torch.zeros(4))
    optimizer = opt_class([parameter])
    parameter.grad = torch.tensor([0.0, 2.0, 0.0, 0.0]).to_sparse()
    try:
        optimizer.step()
    except RuntimeError as error:
        return not isinstance(error, NotImplementedError)  # torch's, for operations it lacks
    return False
