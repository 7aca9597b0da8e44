"""Faster ways to compute the same: cheaper dropout, and training/fast/, where that folder is.

No handout contains the folder: it solves two tasks. Without it a run computes attention and the
optimizer's step as bert.py and optimizer.py say.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib.util import find_spec
from typing import Any

from torch import nn
from torch.optim import Optimizer

from training.dropout import use_short_draws

HAS_FAST_WAYS = find_spec("training.fast") is not None

if HAS_FAST_WAYS:
    from training.fast.adamw import use_fused_step
    from training.fast.attention import use_attention_kernel
    from training.fast.seen_rows import train_seen_rows


def accelerate(
    model: nn.Module,
    optimizer: Optimizer | None = None,
    texts: Collection[Any] = (),
    kernel_in_training: bool = False,
) -> None:
    """Take PyTorch's kernels for attention in evaluation and for AdamW's step, and faster dropout.

    Args:
        optimizer: of a run, which then says in a line what computes attention and step.
        texts: data sets with all that the run trains on, where no other word piece is looked up.
        kernel_in_training: use the one for attention in training, too.
    """
    use_short_draws(model)
    attention, step = "bert.py", "its own"
    if HAS_FAST_WAYS:
        use_attention_kernel(model, kernel_in_training)
        attention = "PyTorch's kernel" + ("" if kernel_in_training else " in evaluation")
    if optimizer is None:
        return
    if HAS_FAST_WAYS and use_fused_step(optimizer):
        step = "PyTorch's kernel"
        if texts and (said := train_seen_rows(model.bert, optimizer, texts)):
            step += f"; {said}"
    print(f"attention: {attention}; step of {type(optimizer).__name__}: {step}")
