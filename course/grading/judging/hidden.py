"""Fresh inputs for grading, and the right answers to them by our own solution.

Both live in the grader's process only; of a set, the inputs alone go into the sandbox. That the
solution is right is what the public references are for, which transformers and a NumPy program
made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from checks.fixed_dropout import FixedDropout, default_dtype
from checks.graded_tasks import GRADED_TASKS, GradedTask
from checks.hunt.random_inputs import LAYER, make_inputs
from checks.part1 import adamw_cases, adamw_mistakes, runners
from checks.part1.adamw_cases import make_cases
from checks.part1.references import load_references, under
from checks.part3 import runners as part3
from course.grading.sandbox.runs import without_decay
from optimizer import AdamW

ALONE, TOGETHER = "alone", "together"  # bert.layer with stand-ins for what it calls, and all else
SOLVED = "solved"  # the classifier's forward with our __init__


@dataclass(frozen=True)
class Hidden:
    """Inputs by name, and what a right function makes of them: ``task id/kind/output``."""

    inputs: dict[str, Tensor]
    expected: dict[str, Tensor]


def make(seed: int, part: int = 1) -> dict[str, Hidden]:
    """The sets "alone" and "together" of one seed; part 3 has the latter only."""
    if part == 3:
        return {TOGETHER: make_part_3(seed)}
    sets = {}
    for shift, name in enumerate((ALONE, TOGETHER)):
        inputs = make_inputs(2 * seed + shift, stand_ins=name == ALONE)
        tasks = [LAYER] if name == ALONE else [t for t in runners.RUNS if t != runners.WHOLE]
        expected: dict[str, Tensor] = {}
        for task_id in tasks:
            options = {"alone": name == ALONE} if task_id == LAYER else {}
            outputs = solve(task_id, inputs, options)
            if task_id == "bert.attention":
                keys_first = solve(task_id, inputs, options, axis=-2).items()
                outputs |= {f"{k} (keys first)": t for k, t in keys_first if k[:7] == "dropout"}
            expected |= {f"{task_id}/{key}": value for key, value in outputs.items()}
        sets[name] = Hidden(inputs, expected)
    return sets


def make_part_3(seed: int) -> Hidden:
    """Inputs of the public ones' shapes, and what our functions make of them."""
    generator = torch.Generator().manual_seed(seed)
    inputs: dict[str, Tensor] = {}
    for task in (task for task in GRADED_TASKS if task.part == 3):
        for name, stored in under(f"{task.id}/inputs/", load_references()).items():
            if name == "theta":
                made = stored * (0.5 + torch.rand((), generator=generator))
            elif name == "sizes":  # windows even and odd, (8, 2)
                lengths = torch.randint(6, 13, (8,), generator=generator)
                made = torch.stack((lengths, torch.arange(1, 9)), dim=1)
            else:
                made = stored.std() * torch.randn(stored.shape, generator=generator).double()
            inputs[f"{task.id}/inputs/{name}"] = made
    expected = {
        f"{task_id}/{name}": output
        for task_id in part3.RUNS
        for name, output in solve(task_id, inputs, {}).items()
    }
    return Hidden(inputs, expected)


def solve(
    task_id: str, inputs: dict[str, Tensor], options: dict[str, Any], axis: int = -1
) -> dict[str, Tensor]:
    """What our own function makes of the inputs, in float64."""
    with default_dtype(torch.float64), FixedDropout(axis=axis):
        outputs = runners.run_of(task_id)(inputs, **options)
    return {name: output.detach() for name, output in outputs.items()}


# ---------------------------------------------------------------------------------------------
# The optimizer


class DecayBefore(AdamW):
    """Our optimizer with the weight decay before the update, which is as right as after it."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """One step, on gradients that are there already."""
        decays = [group["weight_decay"] for group in self.param_groups]
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.mul_(1 - group["lr"] * group["weight_decay"])
            group["weight_decay"] = 0.0
        super().step(closure)
        for group, decay in zip(self.param_groups, decays, strict=True):
            group["weight_decay"] = decay


def trajectories(seed: int) -> dict[str, dict[str, Tensor]]:
    """The right trajectories by the order of weight decay, then by the cases' names."""
    cases = [each for case in make_cases(seed) for each in (case, without_decay(case))]
    kept = {"gradient": adamw_mistakes.outputs_of(AdamW)["gradient"]}
    return {
        order: kept
        | {
            case.name: torch.from_numpy(adamw_cases.run_case(opt_class, case, seed=seed))
            for case in cases
        }
        for order, opt_class in (("after", AdamW), ("before", DecayBefore))
    }


def runs_of(entry: GradedTask) -> dict[str, tuple[str, dict[str, Any]]]:
    """The ways in which a task is run: name → set of inputs, options of runs.part_1."""
    if entry.id == LAYER:
        return {ALONE: (ALONE, {"alone": True}), TOGETHER: (TOGETHER, {"alone": False})}
    if entry.id == "classifier.forward":
        return {TOGETHER: (TOGETHER, {}), SOLVED: (TOGETHER, {})}
    return {TOGETHER: (TOGETHER, {})}
