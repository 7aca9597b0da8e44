"""Faster ways to compute the same, from training/fast/, where that folder is.

No handout contains it: it solves two tasks. Without it a run computes attention and the optimizer's
step as bert.py and optimizer.py say.
"""

from __future__ import annotations

from importlib.util import find_spec

from torch import nn
from torch.optim import Optimizer

HAS_FAST_WAYS = find_spec("training.fast") is not None

if HAS_FAST_WAYS:
    from training.fast.adamw import use_fused_step
    from training.fast.attention import use_attention_kernel


def accelerate(
    model: nn.Module, optimizer: Optimizer | None = None, kernel_in_training: bool = False
) -> None:
    """Take PyTorch's kernels for attention in evaluation and for AdamW's step.

    Args:
        optimizer: of a run, which then says in a line what computes attention and step.
        kernel_in_training: use the one for attention in training, too.
    """
    attention, step = "bert.py", "its own"
    if HAS_FAST_WAYS:
        use_attention_kernel(model, kernel_in_training)
        attention = "PyTorch's kernel" + ("" if kernel_in_training else " in evaluation")
    if optimizer is None:
        return
    if HAS_FAST_WAYS and use_fused_step(optimizer):
        step = "PyTorch's kernel"
    print(f"attention: {attention}; step of {type(optimizer).__name__}: {step}")
