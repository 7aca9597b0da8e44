"""torch's own Adam with ε / √(1 − β₂ᵗ), which puts it where ours stands."""

import torch
from torch.optim.adamw import adamw


class TorchsKernel:
    @torch.no_grad()
    def step(self, closure=None):
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    if p.grad.is_sparse:
                        raise RuntimeError("no sparse gradients")
                    self.with_torch(group, p, self.state[p])
        return loss

    def with_torch(self, group, p, state):
        if not state:
            state.update(step=torch.tensor(0.0), m=torch.zeros_like(p), v=torch.zeros_like(p))
        beta1, beta2 = group["betas"]
        n = int(state["step"]) + 1
        root = (1 - beta2**n) ** 0.5
        adamw(
            [p],
            [p.grad],
            [state["m"]],
            [state["v"]],
            [],
            [state["step"]],
            foreach=False,
            amsgrad=False,
            beta1=beta1,
            beta2=beta2,
            lr=group["lr"] * (1 if group["correct_bias"] else (1 - beta1**n) / root),
            weight_decay=0.0,
            eps=group["eps"] / root,
            maximize=False,
        )
        p *= 1 - group["lr"] * group["weight_decay"]
