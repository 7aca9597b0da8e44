"""PCGrad: where two tasks' gradients conflict, project one onto the normal plane of the other.

Yu et al. 2020 ("Gradient Surgery for Multi-Task Learning"), algorithm 1. For every task i, with
g_i' = g_i at first, and for the other tasks j in random order:

    if g_i' · g_j < 0:   g_i' ← g_i' − (g_i' · g_j / ‖g_j‖²) g_j        Δθ = Σ_i g_i'

Often done wrong: g_j is always the gradient as it was given, never a projected one; the order is
drawn again for every i; the result is the sum, not the mean. Since g_i' = Σ_k c_k g_k all along,
the inner products of the given gradients are enough (task_gradients.py). In the loop, after a
backward pass of every task:

    gradients.combine(pcgrad, seed + step)
    optimizer.step()
"""

from __future__ import annotations

import torch
from torch import Tensor


def pcgrad(products: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Weights w (T,) so that Σ w_i g_i is PCGrad's update; all 1 where nothing conflicts.

    Args:
        products: g_i · g_j, (T, T), T ≥ 1; nothing is read from its device.
        generator: of the random orders; None takes PyTorch's own, which differs between processes.
    """
    tasks = len(products)
    total = torch.zeros_like(products[0])
    for i in range(tasks):
        mixture = torch.zeros_like(products[i])  # c of g_i' = Σ_k c_k g_k
        mixture[i] = 1.0
        for j in torch.randperm(tasks, generator=generator).numpy():
            inner = mixture @ products[:, j]  # g_i' · g_j
            if j != i:
                mixture[j] -= torch.where(inner < 0, inner / products[j, j], 0.0)
        total += mixture
    return total
