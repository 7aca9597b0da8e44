"""Decay before the update, corrected moments m̂ and v̂, ε divided alike, the count a tensor."""

import torch


class CorrectedMoments:
    def step(self, closure=None):
        out = closure() if closure is not None else None
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
                w.data = w.data * (1 - lr * wd)
                m_hat, v_hat = s["avg"] / bias1, s["avg_sq"] / bias2
                spread = v_hat.sqrt() + settings["eps"] / bias2**0.5
                w.data = w.data - lr * m_hat / spread
        return out
