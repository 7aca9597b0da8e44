"""The checks of AdamW, Task 1.5: trajectories against those of a NumPy program, and properties.

This file does not know how AdamW is computed; optimizer_test.py is its command line.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import torch

from checks.errors import attempt, describe
from checks.part1.adamw_cases import (
    CASES,
    ORDERS,
    Case,
    CheckFailed,
    Group,
    first_difference,
    gradient,
    reference,
    run_case,
    start_value,
)


def test_optimizer(opt_class: type) -> torch.Tensor:
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


def check_trajectory(case: Case, opt_class: type) -> str | None:
    """θ after every step is the reference's, for one order of decay, which is returned."""
    got, expected = run_case(opt_class, case), reference()[case.name]
    places = {order: first_difference(got, expected[order]) for order in ORDERS}
    matching = [order for order in ORDERS if places[order] is None]
    if matching:
        return matching[0] if len(matching) == 1 else None  # both: the case has no decay
    order = max(ORDERS, key=lambda name: places[name][0])  # the order that agrees for longer
    row, column = places[order]
    text = (
        f"first differs at step {row + 1}, {case.position(column)}: got {got[row, column]:.9g}, "
        f"wanted {expected[order][row, column]:.9g}\n"
        f"(off by {abs(got[row, column] - expected[order][row, column]):.2g})"
    )
    decays = any(group.settings.get("weight_decay") for group in case.groups)
    raise CheckFailed(text + (f", compared with {ORDERS[order]}" if decays else ""))


def check_published(opt_class: type) -> None:
    """The course's own protocol; its bounds leave room for 1000 roundings in float32."""
    got, expected = test_optimizer(opt_class).double().numpy(), reference()["published"]["after"]
    off = np.nan_to_num(np.abs(got - expected) / (1e-6 + 1e-4 * np.abs(expected)), nan=np.inf)
    if off.max() > 1:  # at this lr and decay the two orders differ by a 300th of the bound
        i, j = np.unravel_index(off.argmax(), off.shape)
        raise CheckFailed(
            f"after 1000 steps weight[{i}, {j}] is {got[i, j]:.7g}, wanted {expected[i, j]:.7g}"
        )


def check_closure(opt_class: type) -> None:
    """step(closure) calls it once, steps on the gradient it makes and returns its loss."""
    parameter = torch.nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64))
    optimizer = opt_class([parameter], lr=0.1)
    losses = []

    def closure():
        optimizer.zero_grad()
        loss = parameter.square().sum()
        loss.backward()
        losses.append(loss.item())
        return loss

    returned = optimizer.step(closure)
    if len(losses) != 1:
        raise CheckFailed(f"step(closure) called the closure {len(losses)} times, wanted once")
    if returned is None or torch.as_tensor(returned).item() != losses[0]:
        raise CheckFailed(f"step(closure) returned {returned}, wanted its loss, {losses[0]}")
    if parameter[0].item() == 1.0:
        raise CheckFailed("step(closure) did not use the gradient which the closure made")


def check_gradient_kept(opt_class: type) -> None:
    """p.grad belongs to the caller: it is read, not written."""
    parameter = torch.nn.Parameter(torch.as_tensor(start_value(0, (2, 3))))
    optimizer = opt_class([parameter], lr=0.1, weight_decay=0.5)
    for step in (1, 2):
        grad = torch.as_tensor(gradient(CASES[0], step, 0))
        parameter.grad = grad.clone()
        optimizer.step()
        if parameter.grad is None or not torch.equal(parameter.grad, grad):
            now = None if parameter.grad is None else parameter.grad.flatten().tolist()
            raise CheckFailed(
                f"step {step} changed p.grad in place:\n"
                f"it was {grad.flatten().tolist()},\nit is  {now}"
            )


def check_scalar(opt_class: type) -> None:
    """A parameter without axes, such as a temperature, moves as a vector of one number does."""
    scalar, vector = (
        Case("", "", (Group((shape,), {"lr": 0.05, "weight_decay": 0.5}),)) for shape in ((), (1,))
    )
    expected, got = run_case(opt_class, vector), run_case(opt_class, scalar)
    if (place := first_difference(got, expected)) is not None:
        raise CheckFailed(
            f"a parameter without axes is {got[place]:.9g} after step {place[0] + 1}, one of shape "
            f"(1,) {expected[place]:.9g}"
        )


def check_sparse(opt_class: type) -> None:
    """A sparse gradient is refused, by a RuntimeError of the optimizer's own."""
    parameter = torch.nn.Parameter(torch.zeros(3))
    optimizer = opt_class([parameter])
    parameter.grad = torch.tensor([0.0, 1.0, 0.0]).to_sparse()
    try:
        optimizer.step()
    except RuntimeError as error:
        if not isinstance(error, NotImplementedError):  # which torch's own operations raise
            return
    raise CheckFailed("step() with a sparse gradient raised no RuntimeError")


CHECKS: dict[str, Callable[[type], str | None]] = {
    **{f"trajectory {case.name}": functools.partial(check_trajectory, case) for case in CASES},
    "published protocol": check_published,
    "closure": check_closure,
    "gradient kept": check_gradient_kept,
    "sparse gradients": check_sparse,
    "parameter without axes": check_scalar,
}
TITLES = {f"trajectory {case.name}": f"trajectory ({case.about})" for case in CASES}  # for people


def failures(opt_class: type) -> dict[str, str]:
    """What is wrong, by the name of the check; every check runs, also after one has failed."""
    failed, orders = {}, {}
    for name, check in CHECKS.items():
        result = attempt(check, opt_class)
        if isinstance(result, CheckFailed):
            failed[name] = str(result)
        elif isinstance(result, BaseException):
            failed[name] = describe(result).text
        elif result:
            orders[result] = name
    if len(orders) > 1:
        texts = [f"{order} the update in {TITLES[name]}" for order, name in orders.items()]
        failed["order of decay"] = ", ".join(texts)
    return failed


def is_started(opt_class: type) -> bool:
    """False where step() is still its stub."""
    result = attempt(run_case, opt_class, CASES[0])  # of other errors the checks say what they are
    return not isinstance(result, BaseException) or describe(result).kind != "not started"
