"""All parameters of a group laid end to end in one vector; the count a tensor."""

import torch


class OneVector:
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
            for p in params:
                if not self.state[p]:
                    zeros = torch.zeros(p.numel(), dtype=p.dtype, device=p.device)
                    self.state[p] = {"step": torch.zeros((), dtype=torch.float64)}
                    self.state[p] |= {"exp_avg": zeros, "exp_avg_sq": zeros}
                self.state[p]["step"] += 1
            if params:
                self.update(group, params)
        return loss

    def update(self, group, params):
        def joined(tensors):
            return torch.cat([tensor.reshape(-1) for tensor in tensors])

        sizes = [p.numel() for p in params]
        theta, grad = joined(params), joined(p.grad for p in params)
        m = joined(self.state[p]["exp_avg"] for p in params)
        v = joined(self.state[p]["exp_avg_sq"] for p in params)
        t = torch.cat(
            [self.state[p]["step"].expand(size) for p, size in zip(params, sizes, strict=True)]
        )
        beta1, beta2 = group["betas"]
        m, v = torch.lerp(grad, m, beta1), torch.lerp(grad.square(), v, beta2)
        rate = torch.full_like(theta, group["lr"])
        if group["correct_bias"]:
            rate = rate * ((1 - beta2**t).sqrt() / (1 - beta1**t)).to(rate)
        theta = theta - rate * m / (v.sqrt() + group["eps"])
        theta = theta - group["lr"] * group["weight_decay"] * theta
        parts = (tensor.split(sizes) for tensor in (theta, m, v))
        for p, new, new_m, new_v in zip(params, *parts, strict=True):
            p.copy_(new.view_as(p))
            self.state[p]["exp_avg"], self.state[p]["exp_avg_sq"] = new_m, new_v
