"""Losses on the cosine of two sentences' vectors, for bi-encoders.

    regression   (c − label / 5)²     Reimers & Gurevych 2019, "Sentence-BERT", section 3
    CoSENT       log(1 + Σ exp(λ (s_i − s_j))), over all i, j of the batch with label_i < label_j
                 (Su 2022): only the order counts, as in a rank correlation

With the cosine as the score (--similarity cosine) the first is the task's own mean squared error.
The cosine is never clamped: below 0 it would have no gradient. In the loop:

    scores = 5 * cosine(bert(ids_1, mask_1), bert(ids_2, mask_2))  # (B,)
    loss = cosent(scores, labels)
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from extensions.loss.divergences import HIGHEST_SIMILARITY, wide


def cosine(u: Tensor, v: Tensor) -> Tensor:
    """(B, D), (B, D) → (B,), −1 to 1, in float32 or, of float64, in float64."""
    return F.cosine_similarity(wide(u), wide(v))


def cosent(scores: Tensor, labels: Tensor, scale: float = 20.0) -> Tensor:
    """CoSENT of scores (B,) from 0 to 5, with s the score brought to 0 … 1; 0 if all labels agree.

    Args:
        labels: (B,), of which only the order counts.
        scale: λ.
    """
    similarities = wide(scores) / HIGHEST_SIMILARITY
    exponents = scale * (similarities[:, None] - similarities[None, :])  # (B, B)
    not_counted = labels[:, None] >= labels[None, :]  # (B, B)
    exponents = exponents.masked_fill(not_counted, -torch.inf).flatten()  # (B²,)
    return F.pad(exponents, (1, 0)).logsumexp(dim=0)  # the padding's 0 is log 1
