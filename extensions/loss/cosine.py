"""Losses on the angle between two sentences' vectors, for bi-encoders whose score is the cosine.

Four ways to use a label, from a target to a mere order:

- The cosine itself should be the label, brought to 0 … 1 (Reimers & Gurevych 2019, "Sentence-BERT",
  section 3, regression objective). With the cosine head this is what the task's own mean squared
  error computes, so that there is nothing to add.
- cosine_embedding: torch's CosineEmbeddingLoss: 1 − c for "the same", max(0, c − margin) for "not
  the same". It knows yes and no only, so it is for Quora; graded labels are refused.
- ranked: CoSENT's form (Su 2022), for any similarity: log(1 + Σ exp(λ (s_i − s_j))) over all i, j
  of the batch with label_i < label_j. Only the order counts, as in a rank correlation.
- angle: AnglE (Li & Li 2024, "AoE: Angle-optimized Embeddings", the loss L_angle), which ranks by
  an angle in complex space, where the cosine's gradient would fade near ±1.

The cosine is never clamped: below 0 it would have no gradient. ranked and angle compare rows of a
batch, so the parts of a batch do not add up to it: no --accumulate, one process, batches of 16 and
more. To try: that one alone first; then ranked or angle, λ 20; AnglE's authors add all three,
w₁ · ranked(cosine) + w₂ · ranking.py's loss + w₃ · angle.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from extensions.loss.divergences import wide


def cosine(u: Tensor, v: Tensor) -> Tensor:
    """(B, D), (B, D) → (B,), −1 to 1, in float32 or, of float64, in float64."""
    return F.cosine_similarity(wide(u), wide(v))


def cosine_embedding(u: Tensor, v: Tensor, labels: Tensor, margin: float = 0.0) -> Tensor:
    """Mean of 1 − c where the label is 1 and of max(0, c − margin) where it is 0.

    Args:
        u, v: (B, D).
        labels: (B,), 0 or 1; torch itself would take 0 for neither and leave the row out.
        margin: how alike two different sentences may be.
    """
    if not ((labels == 0) | (labels == 1)).all():
        raise ValueError("CosineEmbeddingLoss knows labels 0 and 1 only")
    return F.cosine_embedding_loss(wide(u), wide(v), 2 * labels - 1, margin=margin)


def ranked(similarities: Tensor, labels: Tensor, scale: float = 20.0) -> Tensor:
    """log(1 + Σ exp(scale (s_i − s_j))) over all i, j with label_i < label_j; 0 if there are none.

    Args:
        similarities: (B,) s.
        labels: (B,), of which only the order counts.
    """
    similarities = wide(similarities)
    exponents = scale * (similarities[:, None] - similarities[None, :])  # (B, B)
    not_counted = labels[:, None] >= labels[None, :]  # (B, B)
    exponents = exponents.masked_fill(not_counted, -torch.inf).flatten()  # (B²,)
    return F.pad(exponents, (1, 0)).logsumexp(dim=0)  # the padding's 0 is log 1


def angle_similarity(u: Tensor, v: Tensor) -> Tensor:
    """|Re q + Im q| of q = Σ_k z_k w̄_k / (‖z‖ ‖w‖): (B, D), (B, D) → (B,), 0 to √2.

    z has the first half of u as its real and the second as its imaginary part, and w those of v:
    AnglE's quotient z / w with the lengths divided out. It is 1 for u = v. Two things to know:
    because of the |·| it is 1 for u = −v, too, and it depends on which sentence comes first.
    """
    if u.size(-1) % 2:
        raise ValueError(f"AnglE halves vectors, which those of {u.size(-1)} numbers do not allow")
    u, v = F.normalize(wide(u), dim=-1), F.normalize(wide(v), dim=-1)
    z, w = torch.complex(*u.chunk(2, dim=-1)), torch.complex(*v.chunk(2, dim=-1))  # (B, D / 2)
    q = (z * w.conj()).sum(dim=-1)  # (B,)
    return (q.real + q.imag).abs()


def angle(u: Tensor, v: Tensor, labels: Tensor, scale: float = 20.0) -> Tensor:
    """AnglE's L_angle: ``ranked`` with the similarity above, (B, D), (B, D), (B,) → ().

    The paper prints the exponent Δθ_ij − Δθ_mn, with the more similar pair ij in front, as is right
    for an angle, which should be small for it. But what it calls Δθ is the number above, which is
    large for it; the authors' code therefore has the pairs the other way round, as it is here.
    """
    return ranked(angle_similarity(u, v), labels, scale)
