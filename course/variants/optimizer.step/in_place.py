"""Everything in place: mul_, addcmul_, addcdiv_; other names of locals and of the state."""

import torch


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
                weight.mul_(1 - options["lr"] * options["weight_decay"])
        return result
