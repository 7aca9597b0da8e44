"""The two losses of pre-training, and how often the model is right."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor
from torch.nn import functional as F

from pretraining.masking import masked_positions
from pretraining.model import PretrainingModel

KEYS = ("token_ids", "token_type_ids", "attention_mask", "labels", "next_labels")


class Sums(NamedTuple):
    """What a head predicted, summed over ``count`` masked tokens or pairs of segments."""

    loss: Tensor
    right: Tensor
    count: int

    def means(self, head: str) -> dict[str, Tensor]:
        """Loss and accuracy, by names that begin with the head's."""
        count = max(1, self.count)
        return {f"{head}_loss": self.loss / count, f"{head}_acc": self.right / count}


def sums_of(logits: Tensor, targets: Tensor) -> Sums:
    """Of logits (N, K) and the right classes (N,)."""
    loss = F.cross_entropy(logits, targets, reduction="sum")
    return Sums(loss, (logits.argmax(dim=-1) == targets).sum(), len(targets))


def pretraining_losses(
    model: PretrainingModel,
    ids: Tensor,
    segments: Tensor,
    mask: Tensor,
    labels: Tensor,
    relation: Tensor,
) -> dict[str, Sums]:
    """The predictions of masked words ("mlm") and, with two segments, of the second ("nsp").

    Args:
        ids, segments, mask: (B, L) each.
        labels: (B, L), −100 where nothing is masked.
        relation: (B,), 0 where the second segment follows the first, 1 where it does not.
    """
    positions, targets = masked_positions(labels)  # (M,) each
    segments = segments if model.relation else None  # one segment: all 0, the default
    words, order = model(ids, mask, segments, positions)  # (M, V), (B, 2)
    heads = {"mlm": sums_of(words, targets)}
    return heads if order is None else heads | {"nsp": sums_of(order, relation)}
