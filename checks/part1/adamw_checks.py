"""Task 1.5: trajectories of AdamW against those of a NumPy program, its properties, what explains.

optimizer_test.py is the command line.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor

from checks.compare import TOLERANCES, differing, factor_of
from checks.errors import attempt, describe
from checks.findings import Finding
from checks.part1.adamw_cases import (
    CASES,
    ORDERS,
    Case,
    gradient,
    make_cases,
    reference,
    right_path,
    run_case,
    start_value,
)
from checks.task import Inputs, Outputs, Task

SEED = "optimizer.step/inputs/seed"  # an input: of other hyper-parameters and gradients
KEPT = "gradient/kept"  # an output: a gradient after a step on it
NO_NUMBER = torch.full((1,), 9.0)  # in place of a trajectory without a finite number
TOLERANCE = TOLERANCES[torch.float64]


def test_optimizer(opt_class: type) -> Tensor:
    """The weight (2, 3) of a linear layer after 1000 steps on a small regression, in float32."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    model = torch.nn.Linear(3, 2, bias=False)
    optimizer = opt_class(model.parameters(), lr=1e-3, weight_decay=1e-4, correct_bias=True)
    for _ in range(1000):
        optimizer.zero_grad()
        x = torch.tensor(rng.uniform(size=3), dtype=torch.float32)  # (3,)
        target = torch.stack([x[0] + x[1], -x[2]])  # (2,)
        (model(x) - target).square().sum().backward()
        optimizer.step()
    return model.weight.detach()


def check_published(opt_class: type) -> str:
    """What is wrong by the course's own protocol; 1000 roundings in float32 are not."""
    got = test_optimizer(opt_class).double()
    right = torch.from_numpy(reference()["published"]["after"].copy())
    # at this lr and decay the two orders differ by a 300th of the bound
    wrong = ~((got - right).abs() <= 1e-6 + 1e-4 * right.abs())
    if not wrong.any():
        return ""
    i, j = wrong.nonzero()[0].tolist()
    return f"after 1000 steps weight[{i}, {j}] is {got[i, j]:.7g}, wanted {right[i, j]:.7g}"


def after_a_step(opt_class: type) -> tuple[Tensor, Tensor | None]:
    """A gradient, and what is left of it after a step."""
    parameter = torch.nn.Parameter(torch.as_tensor(start_value(0, (2, 3))))
    given = torch.as_tensor(gradient(CASES[0], 1, 0))
    parameter.grad = given.clone()
    opt_class([parameter], lr=0.1, weight_decay=0.5).step()
    return given, parameter.grad


def check_gradient_kept(opt_class: type) -> str:
    """What happens to p.grad, which belongs to the caller: it is read, not written."""
    given, kept = after_a_step(opt_class)
    if kept is None:
        return "step() sets p.grad to None: gradients are the caller's, who clears them (zero_grad)"
    if torch.equal(kept, given):
        return ""
    first = (kept != given).nonzero()[0].tolist()
    before, after = given[tuple(first)], kept[tuple(first)]
    return f"step() changes p.grad: {before:.9g} at {first} is {after:.9g} after it"


def check_closure(opt_class: type) -> str:
    """What is wrong with step(closure): called once, before the update, and its loss returned."""
    parameter = torch.nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64))
    optimizer, losses = opt_class([parameter], lr=0.1), []

    def closure():
        optimizer.zero_grad()
        loss = parameter.square().sum()
        loss.backward()
        losses.append(loss.item())
        return loss

    returned = optimizer.step(closure)
    if len(losses) != 1:
        return f"step(closure) called the closure {len(losses)} times, wanted one loss for a step"
    if returned is None or torch.as_tensor(returned).item() != losses[0]:
        return f"step(closure) returned {returned}, wanted its loss, {losses[0]}"
    is_still = parameter[0].item() == 1.0
    return "step(closure) did not use the gradient that the closure made" if is_still else ""


def check_sparse(opt_class: type) -> str:
    """Whether a sparse gradient is refused, by a RuntimeError of the optimizer's own."""
    parameter = torch.nn.Parameter(torch.zeros(3))
    parameter.grad = torch.tensor([0.0, 1.0, 0.0]).to_sparse()
    error = attempt(opt_class([parameter]).step)
    # NotImplementedError, which is a RuntimeError, is what torch's own operations raise
    is_refused = isinstance(error, RuntimeError) and not isinstance(error, NotImplementedError)
    return "" if is_refused else "step() with a sparse gradient raised no RuntimeError"


def check_case(opt_class: type, case: Case) -> str:
    """Where a trajectory is first wrong, in both orders of decay."""
    got, first = run_case(opt_class, case), {}
    for order in ORDERS:
        wrong = differing(got, right_path(case, order), TOLERANCE)
        if not wrong.any():
            return ""
        first[order] = wrong.nonzero()[0].tolist()
    order = max(first, key=first.get)  # the order that agrees for longer
    step, column = first[order]
    value, right = got[step, column].item(), right_path(case, order)[step, column].item()
    text = (
        f"first differs at step {step + 1}, {case.position(column)}: got {value:.9g}, wanted "
        f"{right:.9g}"
    )
    return text + (f", compared with {ORDERS[order]}" if case.decays else "")


CHECKS = {
    **{f"trajectory ({case.about})": partial(check_case, case=case) for case in CASES},
    "published protocol": check_published,
    "closure": check_closure,
    "gradient kept": check_gradient_kept,
    "sparse gradients": check_sparse,
}
CHECKED = f"all of its {len(CHECKS)} checks"


def is_started(opt_class: type) -> bool:
    """False where step() is still its stub."""
    result = attempt(run_case, opt_class, CASES[0])  # of other errors the checks say what they are
    return not isinstance(result, BaseException) or describe(result).kind != "not started"


def check() -> list[Finding]:
    """What is wrong with the student's AdamW; nothing if it is correct."""
    opt_class = importlib.import_module("optimizer").AdamW
    if not is_started(opt_class):
        return [Finding("not started", "")]
    titles: dict[str, str] = {}  # by text: many checks may fail with one and the same error
    for title, check_one in CHECKS.items():  # every one runs, also after one has failed
        if text := attempt(check_one, opt_class):
            text = text if isinstance(text, str) else describe(text).text
            titles.setdefault(text, title)
    # a gradient that is changed comes first: wrong numbers may follow from it
    said = sorted(titles.items(), key=lambda each: each[1] != "gradient kept")
    return [Finding("values", f"{title}: {text}") for text, title in said]


def as_output(path: Tensor | BaseException) -> Tensor | None:
    """A trajectory with numbers in place of NaNs, which tell mistakes apart; None if it failed.

    A division by zero is the same whether Python refuses it or torch makes NaN of it.
    """
    if isinstance(path, Tensor) and path.isfinite().any():
        return path.nan_to_num(9.0, 8.0, 7.0).clamp(-1e12, 1e12)
    return NO_NUMBER if isinstance(path, Tensor | ZeroDivisionError) else None


def steps(inputs: Inputs) -> Iterator[Outputs]:
    """Trajectories (steps, numbers), case by case; and a gradient after a step on it."""
    opt_class = importlib.import_module("optimizer").AdamW
    seed = int(inputs.get(SEED, 0))
    for case in make_cases(seed) if SEED in inputs else CASES:
        path = attempt(run_case, opt_class, case, torch.float64, seed)
        yield {case.output: as_output(path)}
    with contextlib.suppress(Exception, SystemExit):
        yield {KEPT: after_a_step(opt_class)[1]}


TASK = Task("optimizer.step", steps)
ABOUT = {case.output: case.about for case in CASES} | {KEPT: "the changed p.grad"}


def fact(outputs: Outputs) -> str:
    """What all updates have in common where no mistake is known: a factor, or there are none."""
    made = [(case, updates_of(case, outputs[case.output])) for case in CASES]
    for case, updates in made:
        right = updates_of(case, right_path(case, "after"))
        factor = factor_of(torch.cat(updates, 1), torch.cat(right, 1)) if updates else None
        if factor and abs(factor - 1) > 1e-4:
            count = f", {len(case.shapes)} parameters (not with one)" * (len(case.shapes) > 1)
            return f"{case.about}{count}: every update is {factor:.4g} times what it should be"
        if case.name == "decay" and updates:
            lr, decay = (case.groups[0].settings[key] for key in ("lr", "weight_decay"))
            adam = updates_of(case, right_path(case, "before"), lr * decay)
            pairs = zip(case.shapes, updates, adam, strict=True)
            if still := [str(shape) for shape, got, own in pairs if torch.allclose(got, own)]:
                return f"{case.about}: those of shape {', '.join(still)} are as without decay"
        if still := [str(i) for i, moved in enumerate(updates) if not moved.any()]:
            which = f"parameter {', '.join(still)} (of {len(updates)}, counted from 0)"
            return f"{case.about}: no step changes {which}"
    return ""


def updates_of(case: Case, path: Tensor | None, decay: float = 0.0) -> list[Tensor]:
    """Each parameter's changes, (steps, numbers), without decay · θ; nothing where NaN came in."""
    sizes = [int(np.prod(shape, dtype=int)) for shape in case.shapes]
    if path is None or path.shape != (case.steps, sum(sizes)) or (path == NO_NUMBER).any():
        return []
    start = [start_value(i, shape).ravel() for i, shape in enumerate(case.shapes)]
    every = torch.cat((torch.as_tensor(np.concatenate(start))[None], path))
    return list((every.diff(dim=0) + decay * every[:-1]).split(sizes, dim=1))
