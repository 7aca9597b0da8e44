"""All parameters of a group in torch's multi-tensor operations."""

import torch


class GroupAtOnce:
    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if any(p.grad.is_sparse for p in params):
                raise RuntimeError("no sparse gradients")
            if not params:
                continue
            grads = [p.grad for p in params]
            states = [self.state[p] for p in params]
            for p, state in zip(params, states, strict=True):
                state.setdefault("t", 0)
                state.setdefault("m", torch.zeros_like(p))
                state.setdefault("v", torch.zeros_like(p))
                state["t"] += 1
            ms, vs = [state["m"] for state in states], [state["v"] for state in states]
            beta1, beta2 = group["betas"]
            torch._foreach_lerp_(ms, grads, 1 - beta1)
            torch._foreach_mul_(vs, beta2)
            torch._foreach_addcmul_(vs, grads, grads, 1 - beta2)
            rates = [group["lr"]] * len(params)
            if group["correct_bias"]:
                counts = [state["t"] for state in states]
                rates = [
                    r * (1 - beta2**t) ** 0.5 / (1 - beta1**t)
                    for r, t in zip(rates, counts, strict=True)
                ]
            roots = torch._foreach_sqrt(vs)
            torch._foreach_add_(roots, group["eps"])
            torch._foreach_addcdiv_(params, ms, roots, [-rate for rate in rates])
            torch._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
        return loss
