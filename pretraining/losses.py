"""The two losses of pre-training, and how often the model is right."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from pretraining.masking import IGNORED
from pretraining.model import PretrainingModel

# Running sums: masked tokens and pairs of segments, the sums of their losses, correct predictions
COUNTS = ("masked", "mlm_loss", "mlm_right", "pairs", "pair_loss", "pair_right")
KEYS = ("token_ids", "token_type_ids", "attention_mask", "labels", "next_labels")


def pretraining_losses(
    model: PretrainingModel,
    ids: Tensor,
    segments: Tensor,
    mask: Tensor,
    labels: Tensor,
    relation: Tensor,
) -> tuple[Tensor, Tensor, dict[str, float]]:
    """The two losses, each a sum over the rows, and COUNTS.

    Args:
        ids, segments, mask: (B, L) each.
        labels: (B, L), the token that was at a chosen position, IGNORED elsewhere.
        relation: (B,), 0 for segments in order, 1 otherwise.
    """
    chosen = labels != IGNORED  # (B, L), M of them
    segments = segments if model.relation else None  # one segment: all 0, the default
    words, order = model(ids, mask, segments, chosen)  # (M, V), (B, 2)
    true_words = labels[chosen]  # (M,)
    word_loss = F.cross_entropy(words, true_words, reduction="sum")
    measured = [word_loss, (words.argmax(dim=-1) == true_words).sum()]
    pair_loss = torch.zeros_like(word_loss)
    if order is not None:
        pair_loss = F.cross_entropy(order, relation, reduction="sum")
        measured += [pair_loss, (order.argmax(dim=-1) == relation).sum()]
    sums = torch.stack([value.detach().float() for value in measured]).tolist()  # one wait
    counts = dict(zip(("mlm_loss", "mlm_right", "pair_loss", "pair_right"), sums, strict=False))
    pairs = len(ids) if order is not None else 0
    return word_loss, pair_loss, {"masked": len(true_words), "pairs": pairs} | counts


def averages(sums: dict[str, float], objective: str) -> dict[str, float]:
    """Loss and accuracy of masked words, and of the segments' relation if it is learned."""
    means = {
        "mlm_loss": sums["mlm_loss"] / max(1, sums["masked"]),
        "mlm_acc": sums["mlm_right"] / max(1, sums["masked"]),
    }
    if objective != "none":
        means[f"{objective}_loss"] = sums["pair_loss"] / max(1, sums["pairs"])
        means[f"{objective}_acc"] = sums["pair_right"] / max(1, sums["pairs"])
    return means
