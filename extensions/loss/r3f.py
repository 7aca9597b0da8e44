"""R3F: outputs that hardly change under noise.

Aghajanyan et al. 2021 ("Better Fine-Tuning by Reducing Representational Collapse"), R3F:

    L(θ) + λ KL_S(f(x) ‖ f(x + z)),   z ~ N(0, σ² I)
    KL_S(p ‖ q) = KL(p‖q) + KL(q‖p)

SMART without its search for the worst direction: one more pass instead of two or more. x is the
output of the embeddings.

What to try: λ of 0.1, 0.5, 1, 5. With the paper's σ = 1e-5 the term is about 1e-12 on our
embeddings, where bfloat16's rounding alone makes 1e-6; at σ = 0.1 it is about 1e-4, a hundredth or
less of what SMART's direction makes of numbers as large. Try σ from 0.1 to 1.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def draw(real: Tensor, sigma: float, generator: torch.Generator) -> Tensor:
    """z, (B, L, D), 0 at padding.

    Args:
        real: (B, L, D), 1 at a piece and 0 at padding.
    """
    return torch.empty_like(real).normal_(std=sigma, generator=generator) * real


def noise_stability(
    passes,
    outputs: Tensor,
    divergence: Callable[[Tensor, Tensor], Tensor],
    sigma: float = 0.1,
) -> Tensor:
    """KL_S of a batch, its mean; its gradient goes through both sides.

    Args:
        passes: a perturbation.Passes whose ``clean()`` made the outputs.
        divergence: divergences.symmetric_kl for classes and for yes or no;
            divergences.squared_difference for numbers, which the paper does not have.
    """
    noise = [draw(real, sigma, passes.generator) for real in passes.real]
    return divergence(outputs, passes.perturbed(noise))
