"""Fresh inputs for grading, and the right answers to them by our own solution.

Both live in the grader's process only; of a set, the inputs alone go into the sandbox. That the
solution is right is what the public references are for, which transformers and a NumPy program
made.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

import bert
from checks.fixed_dropout import FixedDropout, default_dtype
from checks.graded_tasks import GradedTask
from checks.part1 import adamw_cases, adamw_mistakes, runners
from checks.part1.references import TINY
from checks.part1.stand_ins import STAND_INS
from config import BertConfig
from course.answers import VARIANTS, installed_source, put, read
from course.grading.intake import parse
from course.grading.sandbox.runs import make_cases, without_decay
from optimizer import AdamW
from utils import get_extended_attention_mask

LAYER = "bert.layer"
ALONE, TOGETHER = "alone", "together"  # bert.layer with stand-ins for what it calls, and all else


@dataclass(frozen=True)
class Hidden:
    """Inputs by name, and what a right function makes of them: ``task id/kind/output``."""

    inputs: dict[str, Tensor]
    expected: dict[str, Tensor]


def make_inputs(seed: int, stand_ins: bool) -> dict[str, Tensor]:
    """Random weights and inputs of all tasks of part 1, named as in sanity_check.data.

    With ``stand_ins``, also what takes the place of attention and add_norm in bert.layer: random
    tensors, which say nothing about the right result.
    """
    generator = torch.Generator().manual_seed(seed)

    def noise(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    def number(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=generator))

    heads, width, wide = TINY["num_attention_heads"], TINY["hidden_size"], TINY["intermediate_size"]
    lengths = torch.tensor([number(5, 11), number(3, 6), 2])
    batch, length, labels = len(lengths), int(lengths.max()), number(3, 9)
    real = torch.arange(length) < lengths[:, None]  # (B, L)
    mask = get_extended_attention_mask(real, torch.float64)
    ids = torch.randint(5, TINY["vocab_size"], real.shape, generator=generator) * real
    head_shape, shape = (batch, heads, length, width // heads), (batch, length, width)
    tensors = {n: 0.3 * noise(*size) + n.endswith("norm.weight") for n, size in weight_shapes()}
    tensors |= {"weights/head.weight": noise(labels, width), "weights/head.bias": noise(labels)}
    put = {
        "bert.attention": {
            **{name: noise(*head_shape) for name in ("key", "query", "value")},
            "mask": mask,
            "cotangent": noise(*shape),
        },
        "bert.add_norm": {
            "input": noise(*shape),
            "attended": noise(*shape),
            "expanded": noise(batch, length, wide),
            "cotangent": noise(*shape),
        },
        LAYER: {"hidden": noise(*shape), "mask": mask, "cotangent": noise(*shape)},
        "bert.embed": {
            "ids": ids,
            "segments": (torch.arange(length) > 1).long() * real,
            "real": real,
            "cotangent": noise(*shape) * real[..., None],
            "pooler_cotangent": noise(batch, width),
        },
        "classifier.forward": {
            "input_ids": ids,
            "attention_mask": real.long(),
            "last_hidden_state": noise(*shape),
            "pooler_output": noise(batch, width),
            "cotangent": noise(batch, labels),
        },
    }
    tensors |= {
        f"{task_id}/inputs/{name}": value
        for task_id, values in put.items()
        for name, value in values.items()
    }
    if stand_ins:
        shapes = stand_in_shapes(shape, head_shape, (batch, length, wide))
        tensors |= {f"{LAYER}/{name}": noise(*size) for name, size in shapes.items()}
    return tensors


Shape = tuple[int, ...]


def stand_in_shapes(shape: Shape, head_shape: Shape, wide_shape: Shape) -> dict[str, Shape]:
    """What takes the place of attention and add_norm in bert.layer: (B, L, D), (B, H, L, W)."""
    shapes = {f"{kind}/{name}": shape for kind in ("values", "dropout") for name in STAND_INS}
    shapes |= {f"replay/attended {name}": head_shape for name in ("key", "query", "value")}
    shapes |= {f"replay/{n}": shape for n in ("normed input", "normed output", "result input")}
    return shapes | {"replay/result output": wide_shape}


@cache
def weight_shapes() -> list[tuple[str, Shape]]:
    """Names and shapes of the tiny BertModel's weights."""
    model = bert.BertModel(BertConfig(**TINY))
    return sorted((f"weights/{name}", tuple(w.shape)) for name, w in model.named_parameters())


def make(seed: int) -> dict[str, Hidden]:
    """The sets "alone" and "together" of one seed."""
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


def solve(
    task_id: str, inputs: dict[str, Tensor], options: dict[str, Any], axis: int = -1
) -> dict[str, Tensor]:
    """What our own function makes of the inputs, in float64."""
    with default_dtype(torch.float64), FixedDropout(axis=axis):
        outputs = runners.RUNS[task_id](inputs, **options)
    return {name: output.detach() for name, output in outputs.items()}


# ---------------------------------------------------------------------------------------------
# The optimizer


def trajectories(seed: int) -> dict[str, dict[str, Tensor]]:
    """Of each order of weight decay: the right trajectories by the cases' names."""
    cases = [each for case in make_cases(seed) for each in (case, without_decay(case))]
    with installed_source("optimizer.py", decay_before()) as module:
        orders = {"after": AdamW, "before": module.AdamW}
        by_order = {
            order: {
                case.name: torch.from_numpy(adamw_cases.run_case(opt_class, case, seed=seed))
                for case in cases
            }
            for order, opt_class in orders.items()
        }
    kept = adamw_mistakes.outputs_of(AdamW)["gradient"]
    return {order: wanted | {"gradient": kept} for order, wanted in by_order.items()}


@cache
def decay_before() -> str:
    """The optimizer's source with the weight decay before the update."""
    with parse.ONE_AT_A_TIME:
        return put(read(VARIANTS, "optimizer.step/decay_before"))


def runs_of(entry: GradedTask) -> dict[str, tuple[str, dict[str, Any]]]:
    """The ways a task of part 1 is run: name → set of inputs, options of runs.part_1."""
    if entry.id == LAYER:
        return {ALONE: (ALONE, {"alone": True}), TOGETHER: (TOGETHER, {"alone": False})}
    if entry.id == "classifier.forward":
        return {TOGETHER: (TOGETHER, {}), "mended": (TOGETHER, {"mended": True})}
    return {TOGETHER: (TOGETHER, {})}
