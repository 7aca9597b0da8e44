"""SimCSE: contrastive learning of sentence vectors (Gao et al. 2021).

Unsupervised, equation 4: a sentence goes through BERT twice, under two dropout masks; its two
vectors h, h⁺ belong together, the other sentences of the batch are the negatives:

    ℓ_i = −log exp(cos(h_i, h_i⁺) / τ) / Σ_j exp(cos(h_i, h_j⁺) / τ),  τ = 0.05

Supervised, equation 5: h⁺ is a sentence that follows from h's (entailment), and the denominator has
a hard negative h⁻ for each row, one that contradicts:

    ℓ_i = −log exp(c⁺_ii / τ) / Σ_j [exp(c⁺_ij / τ) + α_ij exp(c⁻_ij / τ)],  c⁺_ij = cos(h_i, h_j⁺)

with α_ij = α for j = i (its own contradiction) and 1 otherwise; equation 5 itself has α = 1. The
authors' flag hard_negative_weight is log α, since it is added to the exponent.

Unsupervised, the model has to be in training mode: without dropout the two vectors are the same,
and nothing pulls. With α = 1 both are ranking.py's loss at scale 1/τ = 20. The paper's batches are
64, supervised 512; unsupervised it trains for one epoch, lr 3e-5, and keeps the best by STS dev.
No --accumulate, one process. To try: τ, the pooling (the paper trains with a layer on [CLS] and
tests without it, its section 6.3: train with --pooling pooler, then read the vectors off by cls),
MLM beside it at weight 0.1.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable

import torch
from torch import Tensor

from extensions.divergences import wide


def twice(*tensors: Tensor) -> tuple[Tensor, ...]:
    """A batch with all rows twice, (B, …) → (2 B, …) each, so that each row meets two masks."""
    return tuple(torch.cat([tensor, tensor]) for tensor in tensors)


def unsupervised(vectors: Tensor, temperature: float = 0.05) -> Tensor:
    """Equation 4: (2 B, D) of a batch from ``twice`` → ()."""
    first, second = vectors.chunk(2)  # (B, D) each
    return _contrast(_cosine(first, second) / temperature)


def supervised(
    anchors: Tensor,
    positives: Tensor,
    negatives: Tensor,
    temperature: float = 0.05,
    own_weight: float = 1.0,
) -> Tensor:
    """Equation 5.

    Args:
        anchors, positives, negatives: (B, D), a premise, what follows from it, what contradicts it.
        own_weight: α, what a row's own contradiction weighs in the denominator.
    """
    right = _cosine(anchors, positives) / temperature  # (B, B)
    wrong = _cosine(anchors, negatives) / temperature  # (B, B)
    own = math.log(own_weight) * torch.eye(len(anchors), device=wrong.device, dtype=wrong.dtype)
    return _contrast(torch.cat([right, wrong + own], dim=1))  # (B, 2 B)


def _cosine(u: Tensor, v: Tensor) -> Tensor:
    """The cosine of each with each, in float32 at least: (B, D), (C, D) → (B, C)."""
    with torch.autocast(u.device.type, enabled=False):
        u, v = (wide(x) for x in (u, v))
        lengths = u.norm(dim=-1)[:, None] * v.norm(dim=-1)[None, :]  # (B, C)
        return u @ v.T / lengths.clamp(min=1e-8)


def _contrast(logits: Tensor) -> Tensor:
    """Mean of −log softmax at the diagonal: (B, C) → ()."""
    return (logits.logsumexp(dim=1) - logits.diagonal()).mean()


def triplets(rows: Iterable[tuple[Hashable, Hashable, str]]) -> list[tuple]:
    """(premise, entailment, contradiction) of NLI rows (premise, hypothesis, relation).

    Premises without one of the two are left out; one with several of both gives a triplet for each
    of the shorter list. The order is that of the premises' first rows.
    """
    found: dict[Hashable, dict[str, list]] = {}
    for premise, hypothesis, relation in rows:
        kinds = found.setdefault(premise, {"entailment": [], "contradiction": []})
        if relation in kinds:
            kinds[relation].append(hypothesis)
    return [
        (premise, *pair)
        for premise, kinds in found.items()
        for pair in zip(kinds["entailment"], kinds["contradiction"], strict=False)
    ]
