"""The tasks' own losses, as multitask_classifier.py has them."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from extensions.loss.divergences import HIGHEST_SIMILARITY


def paraphrase_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Binary cross-entropy: (B,) logits of "yes", (B,) labels 0 and 1."""
    return F.binary_cross_entropy_with_logits(logits, labels.float())


def similarity_loss(scores: Tensor, labels: Tensor) -> Tensor:
    """Mean squared error of (B,) scores and labels from 0 to 5, both brought to 0 … 1."""
    return F.mse_loss(scores / HIGHEST_SIMILARITY, labels / HIGHEST_SIMILARITY)
