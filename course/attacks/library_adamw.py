"""Has torch's own AdamW compute the step, with an epsilon that is scaled to the course's.

Not prevented: right numbers are right.
Defended by: library_calls.py: staff are told the file and the line.
"""

BASE = "solution"
TASKS = {"1.5": 20.0}
FLAGS = ("optimizer.py:", "torch.optim")

CODE = {
    "optimizer.py": """
from torch.optim import adamw
def step(self, closure=None):
    with torch.no_grad():
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state, (b1, b2) = self.state[p], group["betas"]
                if not state:
                    state |= {"n": torch.zeros(()), "m": torch.zeros_like(p)}
                    state["v"] = torch.zeros_like(p)
                n = state["n"].item() + 1
                if group.get("correct_bias", True):
                    eps, lr = group["eps"] / (1 - b2**n) ** 0.5, group["lr"]
                else:
                    eps = group["eps"] / (1 - b2**n) ** 0.5
                    lr = group["lr"] * (1 - b1**n) / (1 - b2**n) ** 0.5
                adamw.adamw([p], [p.grad], [state["m"]], [state["v"]], [], [state["n"]],
                            foreach=False, amsgrad=False, beta1=b1, beta2=b2, lr=lr,
                            weight_decay=0.0, eps=eps, maximize=False)
                p -= group["lr"] * group["weight_decay"] * p
AdamW.step = step
"""
}
