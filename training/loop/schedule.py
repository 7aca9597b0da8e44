"""The learning rate of each step: a factor on the rate that each group of parameters began with.

``torch.optim.lr_scheduler.LambdaLR`` computes the same product, but counts its steps itself. Here
the run's position says which step it is, so there is no second count to save, to set right after an
interruption, and to explain where several batches make one step.
"""

from __future__ import annotations

from torch.optim import Optimizer


def linear_factor(step: int, steps: int, warmup: float, decay: bool) -> float:
    """The factor in step 0, 1, 2 …: a linear warm-up, then constant or a linear decay.

    step / w up to w = warmup · steps, then 1, or (steps − step) / (steps − w) with decay, as
    transformers' get_linear_schedule_with_warmup: with a warm-up, step 0 has the factor 0.
    """
    rising = round(warmup * steps)
    if step < rising:
        return step / rising
    return max(0.0, (steps - step) / max(1, steps - rising)) if decay else 1.0


def set_learning_rates(optimizer: Optimizer, factor: float) -> None:
    """Set every group's learning rate to the one it began with times a factor."""
    for group in optimizer.param_groups:
        group["lr"] = factor * group.setdefault("initial_lr", group["lr"])
