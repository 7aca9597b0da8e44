"""The cases of AdamW's check, Task 1.5: parameters, hyper-parameters, gradients, and trajectories.

Trajectories are computed in float64; optimizer_test.npy has the correct ones, which
tests/make_optimizer_test.py computes with NumPy alone.
"""

from __future__ import annotations

import copy
import functools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from checks.findings import ROOT
from training.files.errors import InputError

REFERENCE = ROOT / "optimizer_test.npy"
ORDERS = {
    "after": "decay after the update (Loshchilov & Hutter, ours)",
    "before": "decay before the update",
}


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
    def decays(self) -> bool:
        """Whether there is weight decay, of which both orders are correct."""
        return any(group.settings.get("weight_decay") for group in self.groups)

    @property
    def output(self) -> str:
        """The name of its trajectory among the outputs of the task."""
        return f"{'decay' if self.decays else 'values'}/{self.name}"

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of every parameter, over all groups."""
        return [shape for group in self.groups for shape in group.shapes]

    def position(self, column: int) -> str:
        """A column of a trajectory in words: which parameter, which of its numbers."""
        places = [(i, index) for i, shape in enumerate(self.shapes) for index in np.ndindex(shape)]
        return "parameter {}, index {}".format(*places[column])


def group(*shapes: tuple[int, ...], **settings) -> Group:
    """A group of parameters of these shapes."""
    return Group(shapes, settings)


MATRIX = (2, 3)
PAIR = (group(MATRIX, MATRIX, lr=0.05),)
# Weight decay has cases of its own: the others tell what Adam does in either order of decay.
CASES = (
    Case("plain", "Adam, no weight decay", (group(MATRIX, lr=0.05),)),
    Case("large_eps", "eps 0.01", (group(MATRIX, MATRIX, lr=0.05, eps=1e-2),)),
    Case("tiny_gradients", "gradients as small as eps", PAIR, scale=1e-6),
    Case("uncorrected", "correct_bias=False", (group(MATRIX, lr=0.01, correct_bias=False),)),
    Case(
        "groups",
        "two groups, each with its own lr, betas, eps",
        (
            group((3,), (2, 2), lr=0.05, betas=(0.5, 0.9), eps=1e-3),
            group((3,), (2,), lr=0.02, betas=(0.8, 0.99), eps=1e-8),
        ),
    ),
    Case(
        "missing_gradients",
        "steps at which a parameter has no gradient",
        PAIR,
        missing=((1, 1), (3, 0), (4, 0), (6, 1)),
    ),
    Case("resume", "state_dict loaded into a new optimizer before step 6", PAIR, resume_at=6),
    Case("schedule", "lr halved before step 6", PAIR, halve_lr_at=6),
    Case("long", "40 steps", (group(MATRIX, lr=0.05),), steps=40),
    Case(
        "decay",
        "weight decay 0.5, parameters of four shapes",
        (group(MATRIX, (4,), (), (1, 2, 2), lr=0.05, weight_decay=0.5),),
    ),
    Case(
        "decay_of_groups",
        "two groups, each with its own weight decay; a step without gradients",
        (group(MATRIX, lr=0.05, weight_decay=0.5), group((3,), lr=0.02, weight_decay=0.3)),
        missing=((4, 0), (4, 1)),
        halve_lr_at=6,
    ),
    Case(
        "decay_uncorrected",
        "weight decay 0.5 with correct_bias=False",
        (group(MATRIX, lr=0.01, weight_decay=0.5, correct_bias=False),),
    ),
)


def make_cases(seed: int) -> list[Case]:
    """The public cases with other hyper-parameters; their shapes and events stay."""
    rng = np.random.default_rng(seed)

    def near(value: Any) -> Any:
        if isinstance(value, tuple):  # betas
            return tuple(1 - near(1 - beta) for beta in value)
        return value * (1 + rng.uniform(-0.3, 0.3))

    def changed(old: Group) -> Group:
        settings = {k: v if k == "correct_bias" else near(v) for k, v in old.settings.items()}
        return Group(old.shapes, settings)

    return [replace(case, groups=tuple(map(changed, case.groups))) for case in CASES]


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


def build_optimizer(opt_class: type, case: Case, values: list, dtype: torch.dtype):
    """Parameters with those values and their optimizer; a single group is passed as keywords."""
    parameters = [torch.nn.Parameter(torch.as_tensor(v).to(dtype, copy=True)) for v in values]
    if len(case.groups) == 1:
        return parameters, opt_class(parameters, **case.groups[0].settings)
    rest = iter(parameters)
    groups = [{"params": [next(rest) for _ in g.shapes], **g.settings} for g in case.groups]
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
        raise InputError(
            f"{REFERENCE.name} cannot be read ({error}); restore it from git"
        ) from error


def right_path(case: Case, order: str) -> Tensor:
    """The correct trajectory of a public case, in an order of decay: (steps, numbers)."""
    return torch.from_numpy(reference()[case.name][order].copy())
