"""The moments are never corrected for having started at zero.

Hint: Both averages start at 0, so they are too small at first, and not equally so. What factor
undoes that at step t?
Read: Kingma & Ba 2015, §3
"""

import torch


class NoBiasCorrection:
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
                decay = lr * weight_decay
                root = v.sqrt()
                denominator = root + eps
                update = alpha * m / denominator
                p.sub_(update)
                p.sub_(decay * p)
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
                weight.addcdiv_(mean, square.sqrt().add_(options["eps"]), value=-rate)
                weight.mul_(1 - options["lr"] * options["weight_decay"])
        return result


class CorrectedMoments:
    def step(self, closure=None):
        out = None
        if closure is not None:
            out = closure()
        for settings in self.param_groups:
            lr, wd = settings["lr"], settings["weight_decay"]
            first, second = settings["betas"]
            for w in settings["params"]:
                if w.grad is None:
                    continue
                if w.grad.is_sparse:
                    raise RuntimeError("no sparse gradients")
                dw = w.grad.data
                s = self.state[w]
                if "step" not in s:
                    s["step"] = torch.tensor(0.0, dtype=torch.float64)
                    s["avg"], s["avg_sq"] = torch.zeros_like(w.data), torch.zeros_like(w.data)
                s["step"] += 1
                n = s["step"].item()
                s["avg"] = torch.lerp(s["avg"], dw, 1 - first)
                s["avg_sq"] = torch.lerp(s["avg_sq"], dw.square(), 1 - second)
                bias1 = bias2 = 1.0
                w.data = w.data * (1 - lr * wd)
                m_hat, v_hat = s["avg"] / bias1, s["avg_sq"] / bias2
                spread = v_hat.sqrt() + settings["eps"] / bias2**0.5
                w.data = w.data - lr * m_hat / spread
        return out


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
            roots = torch._foreach_sqrt(vs)
            torch._foreach_add_(roots, group["eps"])
            torch._foreach_addcdiv_(params, ms, roots, [-rate for rate in rates])
            torch._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
        return loss
