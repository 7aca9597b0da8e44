"""The two losses of pre-training, and how often the model is right."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from pretraining.model import PretrainingModel
from training.loop.run import Run

KEYS = ("token_ids", "token_type_ids", "attention_mask", "positions", "targets", "next_labels")


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
    positions: Tensor,
    targets: Tensor,
    relation: Tensor,
) -> tuple[Predictions, Predictions]:
    """The predictions of masked words, and of the segments' relation (of 0 pairs without it).

    Args:
        ids, segments, mask: (B, L) each.
        positions, targets: (M,) each, of the masked tokens; see masked_positions.
        relation: (B,), 0 for segments in order, 1 otherwise.
    """
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


def log_losses(
    run: Run, loss: Tensor, words: Predictions, pairs: Predictions, objective: str
) -> None:
    """Log a micro-batch, whose part of the batch's loss is ``loss``."""
    run.log(1, of=1, loss=loss)
    for name, (total, count) in totals(words, pairs, objective).items():
        run.log(count, **{name: total / max(1, count)})
