"""Losses for similarities and ordered classes; both are computed in float32.

Each takes a head's outputs and the labels and returns one number, to be minimised.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from extensions.loss.cosine import ranked
from extensions.loss.divergences import HIGHEST_SIMILARITY


def ordinal(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy with soft labels y_k ∝ exp(−(k − label)²), for classes that have an order.

    Díaz & Marathe 2019 ("Soft Labels for Ordinal Regression"), equation 1, with the squared
    distance as its φ: to miss by one class costs less than to miss by three. The largest logit
    stays the prediction.

    Args:
        logits: (B, C).
        labels: (B,) int64, 0 to C − 1.
    """
    classes = torch.arange(logits.size(-1), device=logits.device)  # (C,)
    distances = (classes - labels[:, None]).float()  # (B, C)
    return F.cross_entropy(logits.float(), (-distances.square()).softmax(dim=-1))


def cosent(scores: Tensor, labels: Tensor, scale: float = 20.0) -> Tensor:
    """CoSENT: log(1 + Σ exp(λ (s_i − s_j))) over all i, j of the batch with label_i < label_j.

    A ranking loss (Su 2022): nothing but the order of the similarities counts, as in a rank
    correlation. Pairs with equal labels do not count; a batch of one label costs 0.

    Args:
        scores: (B,), 0 to 5; s is the score brought to 0 … 1 (a cosine, for a cosine head).
        labels: (B,).
        scale: λ.
    """
    return ranked(scores.float() / HIGHEST_SIMILARITY, labels, scale)
