"""Write optimizer_test.npy, the trajectories optimizer_test.py compares with: an AdamW in NumPy.

    python -m tests.make_optimizer_test         (in the repository's folder; under a second)

It is written from the papers, in float64, and uses neither optimizer.py nor torch.optim: of torch
it takes only the initial weight of the published protocol. The file is one structured array; the
field [case]["after" or "before"] is (steps, numbers), [published][…] is (2, 3). Powers of β are
products, not pow(), and matrix products are sums, so every machine writes the same bytes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from checks.part1.adamw_checks import CASES, ORDERS, REFERENCE, Case, gradient, start_value
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.writing import atomic_write

DEFAULTS = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-6}
DEFAULTS |= {"weight_decay": 0.0, "correct_bias": True}


class Parameter:
    """θ, both moments and the powers of β₁ and β₂ of one parameter."""

    def __init__(self, theta: np.ndarray):
        self.theta = np.asarray(theta, dtype=np.float64)
        self.m = np.zeros_like(self.theta)
        self.v = np.zeros_like(self.theta)
        self.powers = [1.0, 1.0]

    def step(self, grad: np.ndarray, order: str, **settings) -> None:
        """Kingma & Ba 2015, algorithm 1 and the remark under it; Loshchilov & Hutter 2019."""
        setting = DEFAULTS | settings
        lr, eps, weight_decay = setting["lr"], setting["eps"], setting["weight_decay"]
        beta1, beta2 = setting["betas"]
        self.powers = [self.powers[0] * beta1, self.powers[1] * beta2]
        self.m = beta1 * self.m + (1 - beta1) * grad
        self.v = beta2 * self.v + (1 - beta2) * grad**2
        rate = lr
        if setting["correct_bias"]:
            rate = lr * np.sqrt(1 - self.powers[1]) / (1 - self.powers[0])
        update = rate * self.m / (np.sqrt(self.v) + eps)
        if order == "before":
            self.theta = self.theta - lr * weight_decay * self.theta - update
        else:
            moved = self.theta - update
            self.theta = moved - lr * weight_decay * moved


def trajectory(case: Case, order: str) -> np.ndarray:
    """θ after each step of a case: (steps, numbers). Resuming must not show in it."""
    parameters = [Parameter(start_value(i, shape)) for i, shape in enumerate(case.shapes)]
    settings = [dict(group) for group in case.groups for _ in group["shapes"]]
    history = []
    for step in range(1, case.steps + 1):
        for i, (parameter, setting) in enumerate(zip(parameters, settings, strict=True)):
            if step == case.halve_lr_at:
                setting["lr"] /= 2
            grad = gradient(case, step, i)
            if grad is not None:
                parameter.step(grad, order, **setting)
        history.append(np.concatenate([p.theta.ravel() for p in parameters]))
    return np.stack(history)


def published(order: str) -> np.ndarray:
    """The weight (2, 3) after optimizer_test.test_optimizer's 1000 steps."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    weight = Parameter(torch.nn.Linear(3, 2, bias=False).weight.detach().numpy())
    for _ in range(1000):
        x = rng.uniform(size=3).astype(np.float32).astype(np.float64)  # (3,)
        error = (weight.theta * x).sum(axis=1) - np.array([x[0] + x[1], -x[2]])  # (2,)
        weight.step(2 * error[:, None] * x, order, lr=1e-3, weight_decay=1e-4)
    return weight.theta


def make_reference() -> np.ndarray:
    """Every trajectory in one structured array without axes."""
    fields = {case.name: {order: trajectory(case, order) for order in ORDERS} for case in CASES}
    fields["published"] = {order: published(order) for order in ORDERS}
    layout = [
        (name, [(order, "<f8", array.shape) for order, array in arrays.items()])
        for name, arrays in fields.items()
    ]
    reference = np.zeros((), dtype=layout)
    for name, arrays in fields.items():
        for order, array in arrays.items():
            reference[name][order] = array
    return reference


def main() -> None:
    """Write the file."""
    parser = OneLineParser(description="Write the references of optimizer_test.py.")
    parser.add_argument("--out", type=Path, default=REFERENCE, help="(default: %(default)s)")
    args = parser.parse_args()
    with atomic_write(args.out, "wb") as file:
        np.save(file, make_reference(), allow_pickle=False)
    print(f"{args.out}: {len(CASES)} cases and the published protocol")
    print("next: python -m course.make_tables --task 1.5, if the cases have changed")


if __name__ == "__main__":
    run_script(main)
