"""Muon: steps of orthogonal matrices (Jordan et al. 2024), and AdamW for other parameters."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from optimizer import AdamW

COEFFICIENTS = 3.4445, -4.7750, 2.0315  # a, b, c of Jordan et al.
ITERATIONS = 5


def orthogonalize(matrix: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """About the nearest orthogonal matrix: with the decomposition U S Vᵀ that is U Vᵀ.

    A Newton–Schulz iteration, which needs no decomposition: with ‖X‖ = 1, five times
        X ← a X + (b A + c A²) X,    A = X Xᵀ
    It changes the singular values alone, s ← a s + b s³ + c s⁵: those from 0.003 on end between
    0.68 and 1.21. More steps would not bring them to 1: the coefficients are for small values.

    Args:
        matrix: (R, C).
        dtype: of the products.
    """
    a, b, c = COEFFICIENTS
    is_tall = len(matrix) > matrix.size(1)
    x = (matrix.T if is_tall else matrix).to(dtype)  # A is square, of the shorter side
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.T  # A
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.T if is_tall else x).to(matrix.dtype)


class Muon(AdamW):
    """Momentum whose steps are orthogonal, for groups with "momentum"; AdamW for all others.

    For a matrix θ (R, C) with gradient G, a group's learning rate α, weight_decay λ, momentum μ:
        M ← μ M + (1 − μ) G                                  momentum
        θ ← θ − α λ θ                                        decoupled weight decay
        θ ← θ − α · 0.2 √max(R, C) · orthogonalize(μ M + (1 − μ) G)      after Nesterov

    Every direction of a matrix moves alike, however small its gradient. The root mean square of a
    step is 0.2 α, about AdamW's (Liu et al. 2025, section 2.2), so both take the same α and λ.
    """

    dtype = torch.float32  # of the products in orthogonalize

    @torch.no_grad()
    def step(self) -> None:
        """Update every parameter that has a gradient; the matrices' gradients are None then."""
        for group in self.param_groups:
            matrices = group["params"] if "momentum" in group else ()
            for matrix in matrices:
                if matrix.grad is None:
                    continue
                state = self.state[matrix]
                if not state:
                    state["momentum"] = torch.zeros_like(matrix)  # M
                momentum = state["momentum"].lerp_(matrix.grad, 1 - group["momentum"])
                update = orthogonalize(matrix.grad.lerp(momentum, group["momentum"]), self.dtype)
                matrix.mul_(1 - group["lr"] * group["weight_decay"])
                matrix.sub_(update.mul_(group["lr"] * 0.2 * math.sqrt(max(matrix.shape))))
                matrix.grad = None  # so that AdamW passes over it
        super().step()
