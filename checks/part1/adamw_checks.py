"""Task 1.5: trajectories of AdamW against those of a NumPy program, its properties, what explains.

A case of the check has parameters, hyper-parameters and gradients. Trajectories are computed in
float64; optimizer_test.npy has the correct ones, which tests/make_optimizer_test.py computes with
NumPy alone. optimizer_test.py is the command line.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from checks.compare import TOLERANCES, differing, factor_of
from checks.errors import attempt, describe
from checks.findings import ROOT, Finding
from checks.task import Inputs, Outputs, Task
from training.files.errors import InputError

REFERENCE = ROOT / "optimizer_test.npy"
ORDERS = {
    "after": "decay after the update (Loshchilov & Hutter)",
    "before": "decay before the update",
}
SEED = "optimizer.step/inputs/seed"  # an input: of other hyper-parameters and gradients
KEPT = "gradient/kept"  # an output: a gradient after a step on it
TOLERANCE = TOLERANCES[torch.float64]


@dataclass(frozen=True)
class Case:
    """One optimisation with prescribed gradients; steps count from 1, parameters from 0.

    A group of parameters has their ``shapes``; all else in it are hyper-parameters.
    """

    name: str
    about: str
    groups: Sequence[Mapping[str, Any]]
    steps: int = 10
    scale: float = 1.0  # of the gradients
    missing: Sequence[Sequence[int]] = ()  # [step, parameter] with p.grad = None
    resume_at: int = 0  # before this step, save the state and load it into a new optimizer
    halve_lr_at: int = 0  # before this step, as a schedule would

    @property
    def decays(self) -> bool:
        """Whether there is weight decay, of which both orders are correct."""
        return any(group.get("weight_decay") for group in self.groups)

    @property
    def output(self) -> str:
        """The name of its trajectory among the outputs of the task."""
        return f"{'decay' if self.decays else 'values'}/{self.name}"

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of every parameter, over all groups."""
        return [tuple(shape) for group in self.groups for shape in group["shapes"]]

    def position(self, column: int) -> str:
        """A column of a trajectory in words: which parameter, which of its numbers."""
        places = [(i, index) for i, shape in enumerate(self.shapes) for index in np.ndindex(shape)]
        parameter, index = places[column]
        return f"parameter {parameter} of shape {self.shapes[parameter]}, index {index}"


TABLE = tomllib.loads((ROOT / "checks" / "adamw_cases.toml").read_text(encoding="utf-8"))
CASES = tuple(Case(**entry) for entry in TABLE["case"])


def make_cases(seed: int) -> list[Case]:
    """The public cases with other hyper-parameters; their shapes and events stay."""
    rng = np.random.default_rng(seed)

    def near(name: str, value: Any) -> Any:
        if name in ("shapes", "correct_bias"):
            return value
        if name == "betas":
            return [1 - near("1 - beta", 1 - beta) for beta in value]
        return value * (1 + rng.uniform(-0.3, 0.3))

    others = [[{k: near(k, v) for k, v in group.items()} for group in c.groups] for c in CASES]
    return [replace(case, groups=groups) for case, groups in zip(CASES, others, strict=True)]


def start_value(parameter: int, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """θ₀ of a parameter: quarters between −1.25 and 1.25, exact in every floating-point type."""
    k = np.arange(np.prod(shape, dtype=int))
    return (((5 * k + 3 * parameter + seed) % 11 - 5) / 4).reshape(shape)


def gradient(case: Case, step: int, parameter: int, seed: int = 0) -> np.ndarray | None:
    """The gradient of a parameter at a step, whatever θ is: quarters up to 1.5 times the scale."""
    if [step, parameter] in case.missing:
        return None
    shape = case.shapes[parameter]
    k = np.arange(np.prod(shape, dtype=int))
    mixed = (5 * k + 7 * step + 3 * parameter + k * step + seed) % 13
    return case.scale * ((mixed - 6) / 4).reshape(shape)


def build_optimizer(opt_class: type, case: Case, values: list, dtype: torch.dtype):
    """Parameters with those values and their optimizer; a single group is passed as keywords."""
    parameters = [torch.nn.Parameter(torch.as_tensor(v).to(dtype, copy=True)) for v in values]
    rest, groups = iter(parameters), []
    for group in case.groups:
        settings = {k: tuple(v) if k == "betas" else v for k, v in group.items() if k != "shapes"}
        groups.append({"params": [next(rest) for _ in group["shapes"]], **settings})
    if len(groups) == 1:
        return parameters, opt_class(groups[0].pop("params"), **groups[0])
    return parameters, opt_class(groups)


def run_case(
    opt_class: type, case: Case, dtype: torch.dtype = torch.float64, seed: int = 0
) -> Tensor:
    """θ after each step, all parameters flattened side by side: (steps, numbers), float64."""
    values = [start_value(i, shape, seed) for i, shape in enumerate(case.shapes)]
    parameters, optimizer = build_optimizer(opt_class, case, values, dtype)
    history = []
    for step in range(1, case.steps + 1):
        if step == case.resume_at:
            saved = copy.deepcopy(optimizer.state_dict())
            values = [parameter.data for parameter in parameters]
            parameters, optimizer = build_optimizer(opt_class, case, values, dtype)
            optimizer.load_state_dict(saved)
        if step == case.halve_lr_at:
            for each in optimizer.param_groups:
                each["lr"] /= 2
        for i, parameter in enumerate(parameters):
            grad = gradient(case, step, i, seed)
            parameter.grad = None if grad is None else torch.as_tensor(grad).to(dtype)
        optimizer.step()
        if (shapes := [tuple(parameter.shape) for parameter in parameters]) != case.shapes:
            raise ValueError(f"step {step} turns the shapes {case.shapes} into {shapes}")
        history.append(torch.cat([p.detach().double().flatten() for p in parameters]))
    return torch.stack(history)


@functools.cache
def reference() -> np.ndarray:
    """What run_case should give is the field [case name]["after" or "before"]."""
    try:
        return np.load(REFERENCE, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        what = f"{REFERENCE.name} cannot be read ({error}); restore it from git"
        raise InputError(what) from error


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
    if kept is not None and torch.equal(kept, given):
        return ""
    done = "sets p.grad to None" if kept is None else "changes p.grad"
    return f"step() {done}: gradients are the caller's, who clears them (zero_grad)"


def check_case(opt_class: type, case: Case) -> str:
    """Where a trajectory is first wrong, in both orders of decay, and what all updates share."""
    got, first = run_case(opt_class, case), {}
    paths = {order: torch.from_numpy(reference()[case.name][order].copy()) for order in ORDERS}
    for order, path in paths.items():
        wrong = differing(got, path, TOLERANCE)
        if not wrong.any():
            return ""
        first[order] = wrong.nonzero()[0].tolist()
    order = max(first, key=first.get)  # the order that agrees for longer
    (step, column), right = first[order], paths[order]
    text = f"first differs at step {step + 1}, {case.position(column)}: got {got[step, column]:.9g}"
    text += f", wanted {right[step, column]:.9g}"
    if case.decays:
        return f"{text}, compared with {ORDERS[order]}"
    start = [torch.as_tensor(start_value(*each)).flatten() for each in enumerate(case.shapes)]
    updates = [torch.cat((torch.cat(start)[None], path)).diff(dim=0) for path in (got, right)]
    if not updates[0][:, column].any():
        return f"{text}; no step changes this number"
    factor = factor_of(*updates)
    is_multiple = factor and abs(factor - 1) > 1e-4
    return f"{text}; every update is {factor:.4g} times what it should be" if is_multiple else text


CHECKS = {
    "gradient kept": check_gradient_kept,  # first: wrong numbers may follow from it
    **{f"trajectory ({case.about})": partial(check_case, case=case) for case in CASES},
    "published protocol": check_published,
}


def is_started(opt_class: type) -> bool:
    """False where step() is still its stub."""
    result = attempt(run_case, opt_class, CASES[0])  # of other errors the checks say what they are
    return not isinstance(result, BaseException) or describe(result).kind != "not started"


def check() -> list[Finding]:
    """What is wrong with the student's AdamW; nothing if it is correct."""
    opt_class = importlib.import_module("optimizer").AdamW
    if not is_started(opt_class):
        return [Finding("not started", "")]
    findings: dict[str, Finding] = {}  # by text: many checks may fail with one and the same error
    for title, check_one in CHECKS.items():  # every one runs, also after one has failed
        result = attempt(check_one, opt_class)
        if isinstance(result, BaseException):  # the check's title would name another mistake
            finding = describe(result)
            findings.setdefault(finding.text, finding)
        elif result:
            findings.setdefault(result, Finding("values", f"{title}: {result}"))
    return [*findings.values()]


def as_output(path: Tensor | BaseException) -> Tensor | None:
    """A trajectory with numbers in place of NaNs, whose places tell mistakes apart.

    None where no number moves to a finite one, as of an exception: many mistakes make all NaN.
    """
    if isinstance(path, BaseException):
        return None
    moves = path.isfinite().all() or path.diff(dim=0).nan_to_num(0.0, 0.0, 0.0).any()
    return path.nan_to_num(9.0, 8.0, 7.0).clamp(-1e12, 1e12) if moves else None


def steps(inputs: Inputs) -> Iterator[Outputs]:
    """Trajectories (steps, numbers), case by case; and a gradient after a step on it."""
    opt_class = importlib.import_module("optimizer").AdamW
    seed = int(inputs.get(SEED, 0))
    for case in make_cases(seed) if SEED in inputs else CASES:
        path = attempt(run_case, opt_class, case, torch.float64, seed)
        yield {case.output: as_output(path)}
    with contextlib.suppress(Exception, SystemExit):
        yield {KEPT: after_a_step(opt_class)[1]}


TASK = Task(steps)
ABOUT = {case.output: case.about for case in CASES} | {KEPT: "the changed p.grad"}
