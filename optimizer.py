"""AdamW: Adam with decoupled weight decay."""

from __future__ import annotations

### BEGIN SOLUTION optimizer.imports
import math

### END SOLUTION optimizer.imports
from collections.abc import Callable, Iterable

import torch
from torch.optim import Optimizer


class AdamW(Optimizer):
    """Adam (Kingma & Ba 2015, algorithm 1) with decoupled weight decay (Loshchilov & Hutter 2019).

    Bias correction is the "efficient" one of Kingma & Ba, end of section 2: ε stays outside it.

    Args:
        params: parameters, or groups of them as in every torch optimizer.
        lr: learning rate α.
        betas: decay rates (β₁, β₂) of the two running averages.
        eps: ε, added to the root of the second moment.
        weight_decay: λ; each step also takes α·λ·θ off the parameters.
        correct_bias: False leaves the bias correction out, as BERT's original code did.

    Raises:
        ValueError: lr, eps or weight_decay below 0 or nan, a beta outside [0, 1).
    """

    def __init__(
        self,
        params: Iterable[torch.nn.Parameter] | Iterable[dict],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        correct_bias: bool = True,
    ):
        for name, value in (("lr", lr), ("eps", eps), ("weight_decay", weight_decay)):
            if not value >= 0:  # which nan is not either
                raise ValueError(f"{name} is {value}, it must be at least 0")
        for i, beta in enumerate(betas, start=1):
            if not 0 <= beta < 1:
                raise ValueError(f"beta {i} is {beta}, it must be at least 0 and below 1")
        defaults = {"lr": lr, "betas": betas, "eps": eps}
        defaults |= {"weight_decay": weight_decay, "correct_bias": correct_bias}
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], torch.Tensor] | None = None):
        """Update every parameter that has a gradient, once.

        For step t = 1, 2, … of a parameter θ with gradient g:
            m ← β₁·m + (1 − β₁)·g                 running average of the gradient
            v ← β₂·v + (1 − β₂)·g²                running average of its square
            α_t = α·√(1 − β₂ᵗ) / (1 − β₁ᵗ)        bias correction (α_t = α without it)
            θ ← θ − α_t·m / (√v + ε)
            θ ← θ − α·λ·θ                         decoupled weight decay, after the update

        Figure, with bias correction and without: docs/figures/adamw.svg

        Args:
            closure: computes the loss again, with gradients; called first if given.

        Returns:
            The closure's loss, or None.

        Raises:
            RuntimeError: a gradient is sparse.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()

        for group in self.param_groups:
            group["lr"] = float(group["lr"])  # a tensor could be changed in place below
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                if parameter.grad.is_sparse:
                    raise RuntimeError(
                        "AdamW takes no sparse gradients; use torch.optim.SparseAdam"
                    )
                ### BEGIN SOLUTION optimizer.step
                ### STUB: # self.state[parameter] is this parameter's own dictionary: it starts
                ### STUB: # empty and is kept between steps. Follow the equations above, and take
                ### STUB: # the hyper-parameters from `group`.
                state = self.state[parameter]
                if not state:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(parameter)  # m
                    state["exp_avg_sq"] = torch.zeros_like(parameter)  # v
                state["step"] += 1
                grad, m, v = parameter.grad, state["exp_avg"], state["exp_avg_sq"]
                beta1, beta2 = group["betas"]
                m.mul_(beta1).add_(grad, alpha=1 - beta1)
                v.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
                step_size = group["lr"]
                if group["correct_bias"]:
                    correction1 = 1 - beta1 ** state["step"]
                    correction2 = 1 - beta2 ** state["step"]
                    step_size *= math.sqrt(correction2) / correction1
                parameter.addcdiv_(m, v.sqrt().add_(group["eps"]), value=-step_size)
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                ### END SOLUTION optimizer.step
        return loss
