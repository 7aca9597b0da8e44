"""FreeLB: train on every point of an ascent, at the price of the ascent alone.

Zhu et al. 2020 ("FreeLB: Enhanced Adversarial Training for Natural Language Understanding"),
algorithm 1, for a sentence's embeddings X, of which N_δ numbers belong to pieces:

    δ₀ ~ U(−s, s) / √N_δ
    for t = 1 … K:   g_θ += (1 / K) ∇_θ L(X + δ_{t−1});   δ_t = Π(δ_{t−1} + α g_δ / ‖g_δ‖_F)

One backward pass gives both gradients. Π scales δ down to ‖δ‖_F ≤ ε; the paper has s = ε, its code
lets s and ε differ and the scripts often go without ε. All norms are those of one sentence.

What to try (the code's values for ALBERT): α = .1, s = .6, K = 2 for SST; .1, .2, 3 for STS;
.2, .32, 3 for QQP. A step costs K times an ordinary one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from training.files.errors import InputError


def first_delta(real: Tensor, start: float, generator: torch.Generator) -> Tensor:
    """δ₀: (B, L, D), 0 at padding.

    Args:
        real: (B, L, D), 1 at a piece and 0 at padding.
    """
    count = real.sum(dim=(1, 2), keepdim=True).clamp_min(1)  # (B, 1, 1), N_δ
    uniform = torch.empty_like(real).uniform_(-start, start, generator=generator)
    return real * uniform / count.sqrt()


def ascend(delta: Tensor, gradient: Tensor, step_size: float, radius: float | None) -> Tensor:
    """Π(δ + α g / ‖g‖_F), row by row: (B, L, D), (B, L, D) → (B, L, D)."""
    delta = delta + step_size * gradient / _norms(gradient)
    if radius is not None:
        delta = delta * (radius / _norms(delta)).clamp_max(1.0)
    return delta


def _norms(rows: Tensor) -> Tensor:
    """(B, L, D) → (B, 1, 1), never 0."""
    norms = torch.linalg.vector_norm(rows, dim=(1, 2), keepdim=True)
    return norms.clamp_min(torch.finfo(rows.dtype).tiny)


def losses(
    passes,
    loss_of: Callable[[Tensor], Tensor],
    steps: int = 2,
    step_size: float = 0.1,
    start: float = 0.6,
    radius: float | None = None,
) -> Iterator[Tensor]:
    """Yields K losses, each divided by K; ``backward()`` is to be called on each before the next.

    Args:
        passes: a new perturbation.Passes; no clean pass is needed.
        loss_of: outputs → loss, with the batch's labels.
        steps, step_size, start, radius: K, α, s, ε (None: no limit).
    """
    outputs = passes.start(lambda real: first_delta(real, start, passes.generator).requires_grad_())
    for step in range(steps):
        yield loss_of(outputs) / steps
        if step == steps - 1:
            return
        if any(delta.grad is None for delta in passes.deltas):
            raise InputError("FreeLB climbs by the gradient of each loss: call its backward()")
        outputs = passes.perturbed(
            [
                ascend(delta.detach(), delta.grad, step_size, radius).requires_grad_()
                for delta in passes.deltas
            ]
        )
