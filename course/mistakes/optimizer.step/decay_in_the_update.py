"""Weight decay is added to m, so it is divided by √v + ε like the gradient.

Hint: Decoupled decay is not divided by anything: every parameter loses the same share of itself.
Read: Loshchilov & Hutter 2019, algorithm 2
"""

import math

import torch


class DecayInTheUpdate:
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
                root = v.sqrt()
                denominator = root + eps
                update = alpha * (m + weight_decay * p) / denominator
                p.sub_(update)
        return loss


class InPlace:
    @torch.no_grad()
    def step(self, closure=None):
        result = None if closure is None else torch.enable_grad()(closure)()
        for options in self.param_groups:
            b1, b2 = options["betas"]
            for weight in options["params"]:
                if weight.grad is None:
                    continue
                if weight.grad.is_sparse:
                    raise RuntimeError("no sparse gradients")
                g = weight.grad
                memory = self.state[weight]
                memory["count"] = memory.get("count", 0) + 1
                count = memory["count"]
                mean = memory.setdefault("mean", torch.zeros_like(weight))
                square = memory.setdefault("square", torch.zeros_like(weight))
                mean.mul_(b1).add_(g, alpha=1 - b1)
                square.mul_(b2).addcmul_(g, g, value=1 - b2)
                rate = options["lr"]
                if options["correct_bias"]:
                    rate *= (1 - b2**count) ** 0.5 / (1 - b1**count)
                weight.addcdiv_(
                    mean + options["weight_decay"] * weight,
                    square.sqrt().add_(options["eps"]),
                    value=-rate,
                )
        return result


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
            torch._foreach_addcdiv_(
                params,
                torch._foreach_add(ms, params, alpha=group["weight_decay"]),
                roots,
                [-rate for rate in rates],
            )
        return loss
