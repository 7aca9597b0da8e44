"""Keyword arguments to a helper method; both moments in one tuple that begins as 0."""

import torch


class HelperMethod:
    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.update(p, **{k: v for k, v in group.items() if k != "params"})
        return loss

    def update(self, p, *, lr, betas, eps, weight_decay, correct_bias, **_):
        if p.grad.is_sparse:
            raise RuntimeError("no sparse gradients")
        t, moments = self.state[p].get("t", 0) + 1, self.state[p].get("moments", (0.0, 0.0))
        targets = (p.grad, p.grad**2)
        moments = tuple(
            b * old + (1 - b) * new for b, old, new in zip(betas, moments, targets, strict=True)
        )
        self.state[p].update(t=t, moments=moments)
        correction = [1 - beta**t if correct_bias else 1.0 for beta in betas]
        rate = lr * correction[1] ** 0.5 / correction[0]
        p.copy_((1 - lr * weight_decay) * (p - rate * moments[0] / (moments[1] ** 0.5 + eps)))
