"""GradVac: hold the cosine of two tasks' gradients up to what it usually is.

Wang et al. 2021 ("Gradient Vaccine: Investigating and Improving Multi-task Optimization in
Massively Multilingual Models"), section 3, equations 2 and 3. PCGrad acts below a cosine of 0 only,
which is far too low for tasks that are alike. GradVac keeps a target φ̂_ij for each pair, the
running average of the cosine φ_ij = g_i' · g_j / (‖g_i'‖ ‖g_j‖). For every i, with g_i' = g_i at
first, and for the other j in random order:

    if φ_ij < φ̂_ij:
        g_i' ← g_i' + ‖g_i'‖ (φ̂_ij √(1 − φ_ij²) − φ_ij √(1 − φ̂_ij²)) / (‖g_j‖ √(1 − φ̂_ij²)) g_j
    φ̂_ij ← (1 − β) φ̂_ij + β φ_ij                   Δθ = Σ_i g_i'

after which cos(g_i', g_j) = φ̂_ij. With φ̂ = 0 the factor is −g_i' · g_j / ‖g_j‖²: PCGrad. In the
average goes the cosine as it was before the correction; g_j is the gradient as given.

Here one cosine for the whole model; the paper also tries one for each layer. For that, give each
layer's parameters a TaskGradients and a GradVac of their own.

What to try: β = 0.01 is the paper's; other implementations take 0.5, with which a target is little
more than the last cosine. A step needs a batch of every task, always in the same order.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

HIGHEST_TARGET = 1 - 1e-6  # at 1 the correction would be infinite: g_i' can't be made parallel


class GradVac:
    """A rule for TaskGradients.combine that remembers its targets.

    ``targets`` (T, T) is all its state; a run that is to be resumed has to save it.

    Args:
        tasks: T.
        beta: share of the newest cosine in the targets, at least 0 and below 1.
        generator: of the random orders; equal ones in all processes.
    """

    def __init__(self, tasks: int, beta: float = 0.01, generator: torch.Generator | None = None):
        if not 0 <= beta < 1:
            raise ValueError(f"beta is {beta}, it must be at least 0 and below 1")
        self.targets = torch.zeros(tasks, tasks, dtype=torch.float64)  # φ̂
        self.beta = beta
        self.generator = generator

    def __call__(self, products: Tensor) -> Tensor:
        """Weights w (T,) so that Σ w_i g_i is GradVac's update; moves the targets on.

        Args:
            products: g_i · g_j, (T, T) on the CPU.
        """
        tasks = len(self.targets)
        if len(products) != tasks:
            raise ValueError(f"{len(products)} gradients, but targets for {tasks} tasks")
        lengths = products.diagonal().sqrt()  # (T,), ‖g_j‖
        total = torch.zeros(tasks, dtype=products.dtype)
        for i in range(tasks):
            mixture = torch.zeros(tasks, dtype=products.dtype)  # c of g_i' = Σ_k c_k g_k
            mixture[i] = 1.0
            others = [j for j in range(tasks) if j != i]
            for place in torch.randperm(tasks - 1, generator=self.generator).tolist():
                j = others[place]
                length = (mixture @ products @ mixture).clamp(min=0).sqrt()  # ‖g_i'‖
                if length == 0 or lengths[j] == 0:
                    continue  # no direction, no cosine
                inner = (mixture @ products[:, j]).item()  # g_i' · g_j
                cosine = max(-1.0, min(1.0, inner / (length * lengths[j]).item()))
                target = min(self.targets[i, j].item(), HIGHEST_TARGET)
                if cosine < target:
                    wanted, actual = math.sqrt(1 - target**2), math.sqrt(1 - cosine**2)  # sines
                    factor = (target * actual - cosine * wanted) / wanted
                    mixture[j] += factor * length / lengths[j]
                self.targets[i, j] = (1 - self.beta) * self.targets[i, j] + self.beta * cosine
            total += mixture
        return total
