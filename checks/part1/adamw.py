"""The checks of AdamW, Task 1.5: trajectories against those of another program, and properties.

Trajectories are computed in float64 and compared with optimizer_test.npy, which
tests/make_optimizer_test.py writes with NumPy alone. It does not know how AdamW is computed;
optimizer_test.py is its command line.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from checks.errors import describe
from checks.findings import ROOT, Finding, Mistake, named
from checks.fingerprints import KnownMistakes, load_known
from checks.first_nan import FirstNaN
from checks.part1.adamw_probes import facts, ignores_correct_bias
from training.files.errors import InputError

REFERENCE = ROOT / "optimizer_test.npy"
ORDERS = {
    "after": "decay after the update (Loshchilov & Hutter, ours)",
    "before": "decay before the update",
}
# In float64 the orders of summation differ by 1e-15. A step count or moments kept in float32 are no
# mistake and cost up to 3e-6; every mistake we know costs over 2e-4.
TOLERANCE = 1e-5

# ---------------------------------------------------------------------------------------------
# Cases: which parameters, which hyper-parameters, which gradients


@dataclass(frozen=True)
class Group:
    """One parameter group: the shapes of its parameters and its hyper-parameters."""

    shapes: tuple[tuple[int, ...], ...]
    settings: dict


@dataclass(frozen=True)
class Case:
    """One optimisation with prescribed gradients; steps count from 1, parameters from 0."""

    name: str
    about: str
    groups: tuple[Group, ...]
    steps: int = 10
    scale: float = 1.0  # of the gradients
    missing: tuple[tuple[int, int], ...] = ()  # (step, parameter) with p.grad = None
    resume_at: int = 0  # before this step, save the state and load it into a new optimizer
    halve_lr_at: int = 0  # before this step, as a schedule would

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of every parameter, over all groups."""
        return [shape for group in self.groups for shape in group.shapes]


TWO = ((2, 3), (2, 3))
CASES = (
    Case("plain", "Adam, no weight decay", (Group(((2, 3),), {"lr": 0.05}),)),
    Case(
        "decay",
        "weight decay 0.5, parameters of four shapes",
        (Group(((2, 3), (4,), (1,), (1, 2, 2)), {"lr": 0.05, "weight_decay": 0.5}),),
    ),
    Case("large_eps", "eps 0.01", (Group(TWO, {"lr": 0.05, "eps": 1e-2}),)),
    Case(
        "tiny_gradients", "gradients as small as eps", (Group(TWO, {"lr": 0.05}),), scale=1e-6
    ),
    Case(
        "uncorrected",
        "correct_bias=False",
        (Group(TWO, {"lr": 0.01, "weight_decay": 0.5, "correct_bias": False}),),
    ),
    Case(
        "groups",
        "two groups, each with its own lr, betas, eps, weight decay",
        (
            Group(
                ((3,), (2, 2)),
                {"lr": 0.05, "betas": (0.5, 0.9), "eps": 1e-3, "weight_decay": 0.5},
            ),
            Group(((3,),), {"lr": 0.02, "betas": (0.8, 0.99), "eps": 1e-8, "weight_decay": 0.3}),
        ),
    ),
    Case(
        "missing_gradients",
        "steps at which a parameter has no gradient",
        (Group(TWO, {"lr": 0.05, "weight_decay": 0.5}),),
        missing=((1, 1), (3, 0), (4, 0), (6, 1)),
    ),
    Case(
        "resume",
        "state_dict loaded into a new optimizer before step 6",
        (Group(TWO, {"lr": 0.05, "weight_decay": 0.1}),),
        resume_at=6,
    ),
    Case(
        "schedule", "lr halved before step 6", (Group(TWO, {"lr": 0.05}),), halve_lr_at=6
    ),
    Case("long", "40 steps", (Group(TWO, {"lr": 0.05, "weight_decay": 0.1}),), steps=40),
)  # fmt: skip


def start_value(parameter: int, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """θ₀ of a parameter: quarters between −1.25 and 1.25, exact in every floating-point type."""
    k = np.arange(np.prod(shape, dtype=int))
    return (((5 * k + 3 * parameter + seed) % 11 - 5) / 4).reshape(shape)


def gradient(case: Case, step: int, parameter: int, seed: int = 0) -> np.ndarray | None:
    """The gradient of a parameter at a step, whatever θ is: quarters up to 1.5 times the scale."""
    if (step, parameter) in case.missing:
        return None
    shape = case.shapes[parameter]
    k = np.arange(np.prod(shape, dtype=int))
    mixed = (5 * k + 7 * step + 3 * parameter + k * step + seed) % 13
    return case.scale * ((mixed - 6) / 4).reshape(shape)


def _build(opt_class: type, case: Case, values: list, dtype: torch.dtype):
    """Parameters with those values and their optimizer; one group is given as keywords."""
    parameters = [torch.nn.Parameter(torch.as_tensor(v).to(dtype, copy=True)) for v in values]
    if len(case.groups) == 1:
        return parameters, opt_class(parameters, **case.groups[0].settings)
    rest = iter(parameters)
    groups = [{"params": [next(rest) for _ in g.shapes], **g.settings} for g in case.groups]
    return parameters, opt_class(groups)


def run_case(
    opt_class: type, case: Case, dtype: torch.dtype = torch.float64, seed: int | None = None
) -> np.ndarray:
    """θ after each step, all parameters flattened side by side: (steps, numbers), float64."""
    seed = int(reference()["seed"]) if seed is None else seed
    values = [start_value(i, shape, seed) for i, shape in enumerate(case.shapes)]
    parameters, optimizer = _build(opt_class, case, values, dtype)
    history = []
    for step in range(1, case.steps + 1):
        if step == case.resume_at:
            saved = copy.deepcopy(optimizer.state_dict())
            parameters, optimizer = _build(opt_class, case, [p.data for p in parameters], dtype)
            optimizer.load_state_dict(saved)
        if step == case.halve_lr_at:
            for group in optimizer.param_groups:
                group["lr"] /= 2
        for i, parameter in enumerate(parameters):
            grad = gradient(case, step, i, seed)
            parameter.grad = None if grad is None else torch.as_tensor(grad).to(dtype)
        optimizer.step()
        for i, (parameter, shape) in enumerate(zip(parameters, case.shapes, strict=True)):
            if parameter.shape != shape:
                raise CheckFailed(
                    f"step {step}: parameter {i} has turned from shape {shape} into shape "
                    f"{tuple(parameter.shape)}"
                )
        history.append(torch.cat([p.detach().double().flatten() for p in parameters]).numpy())
    return np.stack(history)


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


# ---------------------------------------------------------------------------------------------
# Checks: each takes the class, raises CheckFailed, and may return the order of decay it saw


class CheckFailed(Exception):
    """What was found and what was wanted, in one to three lines."""


@functools.cache
def reference() -> np.ndarray:
    """What run_case should give is the field [case name]["after" or "before"]."""
    try:
        return np.load(REFERENCE, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(
            f"cannot read {REFERENCE.name} ({error}); restore it: git checkout"
        ) from error


def first_difference(got: np.ndarray, wanted: np.ndarray) -> tuple[int, int] | None:
    """Row and column of the first number that differs by more than TOLERANCE; None if none does."""
    off = np.nan_to_num(np.abs(got - wanted), nan=np.inf)
    places = np.argwhere(off > TOLERANCE)
    return tuple(places[0]) if len(places) else None


def check_trajectory(case: Case, opt_class: type) -> str | None:
    """θ after every step is the reference's, for one order of decay, which is returned."""
    got, wanted = run_case(opt_class, case), reference()[case.name]
    found = {order: first_difference(got, wanted[order]) for order in ORDERS}
    matching = [order for order in ORDERS if found[order] is None]
    if matching:
        return matching[0] if len(matching) == 1 else None  # both: the case has no decay
    order = max(ORDERS, key=lambda name: found[name][0])  # the order that agrees for longer
    row, column = found[order]
    text = (
        f"first differs at step {row + 1}, {_position(case, column)}: got {got[row, column]:.9g}, "
        f"wanted {wanted[order][row, column]:.9g}\n"
        f"(off by {abs(got[row, column] - wanted[order][row, column]):.2g})"
    )
    decays = any(group.settings.get("weight_decay") for group in case.groups)
    raise CheckFailed(text + (f", compared with {ORDERS[order]}" if decays else ""))


def _position(case: Case, column: int) -> str:
    """A column of run_case's array in words: which parameter, which of its numbers."""
    for i, shape in enumerate(case.shapes):
        size = int(np.prod(shape, dtype=int))
        if column < size:
            return f"parameter {i}, index {tuple(map(int, np.unravel_index(column, shape)))}"
        column -= size
    raise IndexError(column)


def check_published(opt_class: type) -> None:
    """The course's own protocol; its bounds leave room for 1000 roundings in float32."""
    got, wanted = test_optimizer(opt_class).double().numpy(), reference()["published"]["after"]
    off = np.nan_to_num(np.abs(got - wanted) / (1e-6 + 1e-4 * np.abs(wanted)), nan=np.inf)
    if off.max() > 1:  # at this lr and decay the two orders differ by a 300th of the bound
        i, j = np.unravel_index(off.argmax(), off.shape)
        raise CheckFailed(
            f"after 1000 steps weight[{i}, {j}] is {got[i, j]:.7g}, wanted {wanted[i, j]:.7g}"
        )


def check_determinism(opt_class: type) -> None:
    """Nothing is carried over from one optimizer to the next, nothing is random."""
    case = next(case for case in CASES if case.name == "missing_gradients")
    first, second = run_case(opt_class, case), run_case(opt_class, case)
    if not np.array_equal(first, second, equal_nan=True):
        row, column = np.argwhere(first != second)[0]
        raise CheckFailed(
            f"two runs of case {case.name} first differ at step {row + 1}, "
            f"{_position(case, column)}: {first[row, column]:.17g}, then {second[row, column]:.17g}"
        )


def check_convergence(opt_class: type) -> None:
    """400 steps bring a least-squares problem below a thousandth of its first loss."""
    inputs = torch.as_tensor(start_value(0, (5, 3)))  # (5, 3)
    targets = inputs @ torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)  # (5,)
    weight = torch.nn.Parameter(torch.zeros(3, dtype=torch.float64))
    optimizer = opt_class([weight], lr=0.05)
    losses = []
    for _ in range(400):
        loss = (inputs @ weight - targets).square().mean()
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if not losses[-1] < losses[0] / 1000:
        raise CheckFailed(f"the loss went from {losses[0]:.4g} to {losses[-1]:.4g} in 400 steps")


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


def check_arguments(opt_class: type) -> None:
    """Impossible hyper-parameters are refused when the optimizer is made."""
    for setting in (
        {"lr": -1.0}, {"betas": (1.0, 0.999)}, {"betas": (-0.1, 0.999)},
        {"betas": (0.9, 1.0)}, {"betas": (0.9, -0.1)}, {"eps": -1.0},
    ):  # fmt: skip
        try:
            opt_class([torch.nn.Parameter(torch.zeros(1))], **setting)
        except ValueError:
            continue
        text = ", ".join(f"{key}={value}" for key, value in setting.items())
        raise CheckFailed(f"{opt_class.__name__}(…, {text}) was accepted, wanted a ValueError")


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


CHECKS: tuple[tuple[str, str, Callable], ...] = (
    *((f"trajectory {c.name}", c.about, functools.partial(check_trajectory, c)) for c in CASES),
    ("published protocol", "1000 steps of a regression in float32", check_published),
    ("determinism", "two runs are equal to the bit", check_determinism),
    ("convergence", "a least-squares problem is solved", check_convergence),
    ("closure", "called once, its loss returned", check_closure),
    ("gradient kept", "p.grad is not changed in place", check_gradient_kept),
    ("arguments", "impossible lr, betas, eps raise ValueError", check_arguments),
    ("sparse gradients", "raise RuntimeError", check_sparse),
)


# ---------------------------------------------------------------------------------------------
# Known mistakes

# A case's fingerprint is filed under the part of AdamW that it shows.
PARTS = {"adam": ("plain", "large_eps", "tiny_gradients"), "decay": ("decay", "long")}
# Names of fingerprints begin with these. Two mistakes at once may be of different parts: where all
# of a part is as one of them makes it, that one is named.
DECISIVE = ("adam/", "decay/", "uncorrected", "missing_gradients")
NO_NUMBER = torch.full((1,), 9.0)  # in place of a trajectory without a finite number


def fingerprint_name(case: Case) -> str:
    """``adam/plain``, or the case's name alone."""
    return next((f"{part}/{case.name}" for part in PARTS if case.name in PARTS[part]), case.name)


def outputs_of(opt_class: type) -> dict[str, torch.Tensor | str | None]:
    """What a wrong optimizer is recognised by: trajectories, and the gradient after a step.

    A division by zero is the same whether Python refuses it or torch makes NaN of it. After any
    other exception the output is its text.
    """
    outputs: dict[str, torch.Tensor | str | None] = {}
    for case in CASES:
        try:
            found = torch.from_numpy(run_case(opt_class, case))
            some = bool(found.isfinite().any())  # NaN here and there is told by its place
            output = found.nan_to_num(nan=9.0, posinf=8.0, neginf=7.0) if some else NO_NUMBER
        except InputError:
            raise
        except ZeroDivisionError:
            output = NO_NUMBER
        except (Exception, SystemExit) as error:
            output = describe(error).text
        outputs[fingerprint_name(case)] = output
    parameter = torch.nn.Parameter(torch.as_tensor(start_value(0, (2, 3))))
    parameter.grad = torch.as_tensor(gradient(CASES[0], 1, 0))
    with contextlib.suppress(Exception, SystemExit):
        opt_class([parameter], lr=0.1, weight_decay=0.5).step()
    return outputs | {"gradient": parameter.grad}


@functools.cache
def known_mistakes() -> KnownMistakes:
    """The fingerprints in the reference file."""
    found = reference()
    words = json.loads(bytes(found["mistakes"])) if "mistakes" in found.dtype.names else {}
    tables = found["fingerprints"] if words else np.zeros((), [])
    prints = {name: torch.from_numpy(tables[name].copy()) for name in tables.dtype.names or ()}
    return load_known(words, prints)


def explain(opt_class: type) -> list[Finding]:
    """The known mistakes that a wrong optimizer makes; if it makes none of them, what it does."""
    with FirstNaN() as nan:
        mistakes, left = mistakes_in(outputs_of(opt_class), known_mistakes())
    ignored = known_mistakes().mistakes.get("correct_bias_ignored")
    if "uncorrected" in left and ignored and ignores_correct_bias(opt_class):
        mistakes, left = [*mistakes, ignored], [name for name in left if name != "uncorrected"]
    found = named(mistakes)
    if nan.text and not mistakes:
        return [Finding("fact", nan.text)]
    if mistakes and left:
        cases = ", ".join(name.rpartition("/")[2] for name in left)
        found.append(Finding("fact", f"that is not all: it does not explain {cases}"))
    if left or not mistakes:
        found += [Finding("fact", text) for text in facts(opt_class)]
    return found


def mistakes_in(
    outputs: Mapping[str, Any], known: KnownMistakes
) -> tuple[list[Mistake], list[str]]:
    """The known mistakes that a wrong optimizer's outputs tell of, and which they leave open.

    Of two mistakes each may be the only one in a part of the outputs.

    Args:
        outputs: by name; they may be of any type.
    """
    if not isinstance(outputs.get(fingerprint_name(CASES[0])), torch.Tensor):
        return [], []  # the exception says what is wrong
    wrong = [
        fingerprint_name(case)
        for case in CASES
        if not is_right(case, outputs.get(fingerprint_name(case)))
    ]
    mistakes, left = known.find(outputs)
    if mistakes:
        return mistakes, left
    left = wrong
    for part in DECISIVE:
        here = [outputs[name] for name in left if name.startswith(part)]
        empty = any(output is NO_NUMBER for output in here)  # as of many mistakes
        if here and not (empty and "uncorrected" in wrong):
            found, others = known.find(outputs, decisive=part)
            mistakes += [mistake for mistake in found if mistake not in mistakes]
            left = [name for name in left if name in others] if found else left
    return mistakes, left


def is_right(case: Case, output: Any) -> bool:
    """Whether this is the reference's trajectory, for either order of decay."""
    wanted = [reference()[case.name][order] for order in ORDERS]
    if not isinstance(output, torch.Tensor) or output.shape != wanted[0].shape:
        return False
    return any(first_difference(output.double().numpy(), one) is None for one in wanted)


# ---------------------------------------------------------------------------------------------
# Running them and telling


@dataclass(frozen=True)
class Result:
    """What one check found; ``detail`` is empty, or why it failed."""

    name: str
    about: str
    passed: bool
    detail: str = ""
    order: str | None = None  # of weight decay, where the check could tell


def check_all(opt_class: type) -> list[Result]:
    """Run every check, also after one has failed; last comes the order of decay, if seen."""
    results = []
    for name, about, check in CHECKS:
        try:
            results.append(Result(name, about, True, order=check(opt_class)))
        except InputError:
            raise
        except CheckFailed as failure:
            results.append(Result(name, about, False, str(failure)))
        except (Exception, SystemExit) as error:  # whatever the student's code may raise
            results.append(Result(name, about, False, describe(error).text))
    seen = {result.order: result.name for result in results if result.order}
    if seen:
        about = " and ".join(ORDERS[order] for order in seen)
        detail = ", ".join(f"{order} the update in {name}" for order, name in seen.items())
        one = len(seen) == 1
        results.append(Result("order of decay", about, one, "" if one else detail))
    return results


def is_started(opt_class: type) -> bool:
    """False where step() is still its stub."""
    try:
        run_case(opt_class, CASES[0])
    except (Exception, SystemExit) as error:  # of others the checks will say what they are
        return describe(error).kind != "not started"
    return True
