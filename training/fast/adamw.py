"""The step of the course's AdamW by PyTorch's fused kernel, three times as fast.

The kernel reads and writes each number once, where the plain step passes over memory eight times.
It has ε inside the bias correction: with ε / √(1 − β₂ᵗ) its update is ours.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim import Optimizer


@torch.no_grad()
def fused_step(self: Optimizer) -> None:
    """What AdamW.step does without a closure, on the same state: each goes on from the other's."""
    for group in self.param_groups:
        group["lr"] = float(group["lr"])
        same_step: dict[int, list[tuple[Tensor, ...]]] = {}  # (θ, gradient, m, v) by their step
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            state = self.state[parameter]
            if not state:
                state["step"] = 0
                state["exp_avg"] = torch.zeros_like(parameter)  # m
                state["exp_avg_sq"] = torch.zeros_like(parameter)  # v
            state["step"] += 1
            operands = parameter, parameter.grad, state["exp_avg"], state["exp_avg_sq"]
            same_step.setdefault(state["step"], []).append(operands)
        for step, operands in same_step.items():
            update(group, step, *zip(*operands, strict=True))


def update(group: dict, step: int, parameters: Sequence[Tensor], *operands: Sequence) -> None:
    """Update parameters of a group at the same step; the operands are their gradients, m and v."""
    beta1, beta2 = group["betas"]
    # the kernel wants a tensor of each parameter's own: views of one, which no copy has to make
    steps = torch.full((len(parameters),), float(step), device=parameters[0].device)
    correction1, correction2 = 1 - beta1**step, math.sqrt(1 - beta2**step)
    torch._fused_adamw_(
        parameters,
        *operands,
        [],
        list(steps.unbind()),
        amsgrad=False,
        beta1=beta1,
        beta2=beta2,
        lr=group["lr"] * (1 if group["correct_bias"] else correction1 / correction2),
        weight_decay=0.0,
        eps=group["eps"] / correction2,
        maximize=False,
    )
    if group["weight_decay"]:
        torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
