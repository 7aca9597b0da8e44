"""Three more update rules than our AdamW: SGD with momentum, Adam with coupled decay, Lion.

All read θ ← θ − α · (a direction made of the gradient g and of averages kept between steps):

    SGD    v ← μ v + g                      direction v               Sutskever et al. 2013, sec. 2
    Adam   m, v: averages of g and of g²    direction m̂ / (√v̂ + ε)    Kingma & Ba 2015, algorithm 1
    Lion   c = β₁ m + (1 − β₁) g            direction sign(c) + λ θ   Chen et al. 2023, algorithm 2
           m ← β₂ m + (1 − β₂) g

Weight decay is coupled in SGD and Adam (g ← g + λ θ, so Adam divides it by √v̂ as well; AdamW does
not: Loshchilov & Hutter 2019, section 2) and decoupled in Lion. Numbers kept for each parameter:
SGD one (none with μ = 0), Adam two, Lion one.

To try: Lion with a third to a tenth of AdamW's learning rate and as many times its weight decay
(Chen et al., section 5), since every entry of its step is ±α; SGD with some 100 times AdamW's rate:
attention's gradients differ in size by orders of magnitude, which a single rate does not even out.
In front of the loop:

    optimizer = Lion([p for p in model.parameters() if p.requires_grad], lr=5e-6)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor
from torch.optim import Optimizer


class ElementwiseOptimizer(Optimizer):
    """An optimizer whose rule looks at one parameter at a time; a subclass gives ``update``."""

    def __init__(self, params: Iterable, **defaults):
        for name, value in defaults.items():
            for number in value if isinstance(value, tuple) else (value,):
                if number < 0:
                    raise ValueError(f"{name} is {value}, it must be at least 0")
        for beta in (defaults.get("momentum", 0.0), *defaults.get("betas", ())):
            if beta >= 1:
                raise ValueError(f"a decay rate is {beta}, it must be below 1")
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], Tensor] | None = None):
        """Update every parameter that has a gradient, once; returns the closure's loss, if any."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                if parameter.grad.is_sparse:
                    raise RuntimeError(f"{type(self).__name__} takes no sparse gradients")
                self.update(parameter, parameter.grad, self.state[parameter], group)
        return loss

    def update(self, parameter: Tensor, grad: Tensor, state: dict, group: dict) -> None:
        """Change ``parameter`` in place; ``state`` starts empty and is kept between steps."""
        raise NotImplementedError


class SGD(ElementwiseOptimizer):
    """Stochastic gradient descent with momentum μ, as torch.optim.SGD (dampening 0)."""

    def __init__(self, params, lr=1e-3, momentum=0.9, weight_decay=0.0):
        super().__init__(params, lr=lr, momentum=momentum, weight_decay=weight_decay)

    def update(self, parameter: Tensor, grad: Tensor, state: dict, group: dict) -> None:
        """With g ← g + λ θ: v ← μ v + g, then θ ← θ − α v."""
        grad = grad + group["weight_decay"] * parameter
        if group["momentum"]:
            if not state:
                state["momentum"] = torch.zeros_like(parameter)
            grad = state["momentum"].mul_(group["momentum"]).add_(grad)  # v
        parameter.sub_(grad, alpha=group["lr"])


class Adam(ElementwiseOptimizer):
    """Kingma & Ba 2015, algorithm 1, with L2 regularisation in the gradient: torch.optim.Adam."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
        super().__init__(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)

    def update(self, parameter: Tensor, grad: Tensor, state: dict, group: dict) -> None:
        """θ ← θ − α m̂ / (√v̂ + ε), with m̂ = m / (1 − β₁ᵗ) and v̂ = v / (1 − β₂ᵗ)."""
        if not state:
            state["step"] = 0
            state["exp_avg"] = torch.zeros_like(parameter)  # m
            state["exp_avg_sq"] = torch.zeros_like(parameter)  # v
        state["step"] += 1
        beta1, beta2 = group["betas"]
        grad = grad + group["weight_decay"] * parameter
        m = state["exp_avg"].mul_(beta1).add_(grad, alpha=1 - beta1)
        v = state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        root = (v.sqrt() / math.sqrt(1 - beta2 ** state["step"])).add_(group["eps"])
        parameter.addcdiv_(m, root, value=-group["lr"] / (1 - beta1 ** state["step"]))


class Lion(ElementwiseOptimizer):
    """EvoLved Sign Momentum (Chen et al. 2023, algorithm 2): a step of ±α for every number."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, lr=lr, betas=betas, weight_decay=weight_decay)

    def update(self, parameter: Tensor, grad: Tensor, state: dict, group: dict) -> None:
        """θ ← θ − α (sign(β₁ m + (1 − β₁) g) + λ θ), then m ← β₂ m + (1 − β₂) g."""
        if not state:
            state["momentum"] = torch.zeros_like(parameter)  # m
        m, (beta1, beta2) = state["momentum"], group["betas"]
        sign = (beta1 * m + (1 - beta1) * grad).sign_()
        parameter.sub_(sign + group["weight_decay"] * parameter, alpha=group["lr"])
        m.mul_(beta2).add_(grad, alpha=1 - beta2)
