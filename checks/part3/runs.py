"""Runs of the student's functions of lessons/modern_bert.py, as checks/part1/runs.py has them.

The inputs are those of checks/part3/references.data, or a grader's of the same names. The names of
outputs are those of the references. Nothing is judged here.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace

import torch
from torch import Tensor

from checks.graded_tasks import graded_task
from checks.part1.runs import afterwards, gradients, leaves
from checks.references import inputs_of
from checks.task import Inputs, Outputs, Task

# No two sizes in the stored inputs are the same: a wrong one tells where it was read.
BATCH, HEADS, LENGTH, WIDTH = 2, 3, 9, 14  # of Task 3.1
THETA = 700.0  # not one of ModernBERT's, so that those in the code are noticed
SIZES = ((9, 4), (8, 5), (5, 1), (6, 64))  # of Task 3.2: length and window
HIDDEN, INTERMEDIATE, DROPOUT = 10, 16, 0.4  # of Task 3.3


def student_module() -> ModuleType:
    """The student's lessons/modern_bert.py."""
    return importlib.import_module(graded_task("3.1").module)


def rotary(inputs: Inputs) -> Iterator[Outputs]:
    """Task 3.1 on queries (B, H, L, W)."""
    stored = inputs_of("modern.rotary", inputs)
    apply_rotary = student_module().apply_rotary
    theta = stored.theta.item()
    (source,), (handed,) = leaves(stored.x)
    result = apply_rotary(handed, theta)
    yield {"values/turned": result} | afterwards(x=handed)
    yield gradients(result, stored.cotangent, {"x": source})
    long = stored.x[:1, :1, :1].expand(1, 1, 600, -1).bfloat16()  # (1, 1, 600, W)
    half, exact = apply_rotary(long, theta), apply_rotary(long.float(), theta)
    if not isinstance(half, Tensor):  # of its type there is nothing to say
        return
    keeps = half.dtype == torch.bfloat16
    near = keeps and torch.allclose(half.float(), exact.float(), rtol=0.02, atol=0.02)
    yield {"values/a bfloat16 result stays bfloat16": torch.tensor([keeps])}
    yield {"values/a bfloat16 result is close to the float32 result": torch.tensor([near])}


def local_mask(inputs: Inputs) -> Iterator[Outputs]:
    """Task 3.2 on lengths and windows (K, 2), narrower and wider than the text."""
    stored = inputs_of("modern.local_mask", inputs)
    mask_of = student_module().local_mask
    for length, window in stored.sizes.tolist():
        mask = mask_of(length, window)
        yield {f"values/mask of {length} tokens, window {window}": mask}
    if isinstance(mask, Tensor):
        yield {"values/masks are of type torch.bool": torch.tensor([mask.dtype == torch.bool])}


def geglu(inputs: Inputs) -> Iterator[Outputs]:
    """Task 3.3 on hidden states (B, L, D), with given weights."""
    stored = inputs_of("modern.geglu", inputs)
    sizes = {"hidden_size": HIDDEN, "intermediate_size": INTERMEDIATE}
    config = SimpleNamespace(**sizes, mlp_dropout=DROPOUT)
    module = student_module().GeGLU(config).to(stored.hidden.dtype).eval()
    weights = {"interm_dense.weight": stored.interm_dense, "out_dense.weight": stored.out_dense}
    module.load_state_dict(weights)
    (source,), (handed,) = leaves(stored.hidden)
    result = module(handed)
    yield {"values/result": result} | afterwards(hidden=handed)
    sources = {"hidden_states": source} | dict(module.named_parameters())
    yield gradients(result, stored.cotangent, sources)
    module.train()
    yield {"dropout/result": module(stored.hidden.clone())}


TASKS = {
    "modern.rotary": Task(rotary),
    "modern.local_mask": Task(local_mask),
    "modern.geglu": Task(geglu),
}
