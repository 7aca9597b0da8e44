"""The weight decay is not scaled by the learning rate.

Hint: With a learning rate of 0 a step must change nothing; what does yours do?
Read: Loshchilov & Hutter 2019, algorithm 2
"""

import math

import torch


class DecayWithoutLr:
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
                decay = weight_decay
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
                if options["correct_bias"]:
                    rate *= (1 - b2**count) ** 0.5 / (1 - b1**count)
                weight.addcdiv_(mean, square.sqrt().add_(options["eps"]), value=-rate)
                weight.mul_(1 - options["weight_decay"])
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
                if settings["correct_bias"]:
                    bias1, bias2 = 1 - first**n, 1 - second**n
                w.data = w.data * (1 - wd)
                m_hat, v_hat = s["avg"] / bias1, s["avg_sq"] / bias2
                spread = v_hat.sqrt() + settings["eps"] / bias2**0.5
                w.data = w.data - lr * m_hat / spread
        return out
