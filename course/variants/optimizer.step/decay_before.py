"""Weight decay before the update, as in torch.optim.AdamW; else line by line as plain.py."""

import math

import torch


class DecayBefore:
    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if p.grad.is_sparse:
                    raise RuntimeError("no sparse gradients")
                grad = p.grad
                state = self.state[p]
                if len(state) == 0:
                    state["t"] = 0
                    state["m"] = torch.zeros_like(p)
                    state["v"] = torch.zeros_like(p)
                state["t"] += 1
                t = state["t"]
                lr = group["lr"]
                beta1, beta2 = group["betas"]
                eps = group["eps"]
                weight_decay = group["weight_decay"]
                m = beta1 * state["m"] + (1 - beta1) * grad
                v = beta2 * state["v"] + (1 - beta2) * grad * grad
                state["m"] = m
                state["v"] = v
                alpha = lr
                if group["correct_bias"]:
                    alpha = alpha * math.sqrt(1 - beta2**t)
                    alpha = alpha / (1 - beta1**t)
                decay = lr * weight_decay
                root = v.sqrt()
                denominator = root + eps
                update = alpha * m / denominator
                p.sub_(decay * p)
                p.sub_(update)
        return loss
