"""The two losses of pre-training, and how often the model is right."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from pretraining.masking import masked_positions
from pretraining.model import PretrainingModel

KEYS = ("token_ids", "token_type_ids", "attention_mask", "labels", "next_labels")


class Predictions(NamedTuple):
    """What a head predicted, summed over ``count`` masked tokens or pairs of segments."""

    loss: Tensor
    right: Tensor
    count: int


def pretraining_losses(
    model: PretrainingModel,
    ids: Tensor,
    segments: Tensor,
    mask: Tensor,
    labels: Tensor,
    relation: Tensor,
) -> tuple[Predictions, Predictions]:
    """The predictions of masked words, and of the segments' relation (of 0 pairs without it).

    Args:
        ids, segments, mask: (B, L) each.
        labels: (B, L), −100 where nothing is masked.
        relation: (B,), 0 for segments in order, 1 otherwise.
    """
    positions, targets = masked_positions(labels)  # (M,) each
    segments = segments if model.relation else None  # one segment: all 0, the default
    words, order = model(ids, mask, segments, positions)  # (M, V), (B, 2)
    if order is None:
        return predictions(words, targets), Predictions(torch.zeros(()), torch.zeros(()), 0)
    return predictions(words, targets), predictions(order, relation)


def predictions(logits: Tensor, targets: Tensor) -> Predictions:
    """Loss and correct predictions: (N, K), (N,)."""
    loss = F.cross_entropy(logits, targets, reduction="sum")
    return Predictions(loss, (logits.argmax(dim=-1) == targets).sum(), len(targets))


def totals(words: Predictions, pairs: Predictions, objective: str) -> dict[str, tuple[Tensor, int]]:
    """Loss and accuracy of masked words, and of the relation if it is learned: (sum, count)."""
    heads = {"mlm": words} if objective == "none" else {"mlm": words, objective: pairs}
    return {
        f"{head}_{name}": (total, count)
        for head, (loss, right, count) in heads.items()
        for name, total in (("loss", loss), ("acc", right))
    }
