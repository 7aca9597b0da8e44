"""What pre-training predicts: which tokens are masked, and by what; the losses of both heads.

Devlin et al. 2019, section 3.1 and appendix A.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from training.loop.batches import cpu_copy, to_device

IGNORED = -100  # a label that cross_entropy leaves out
MASKED = 0.15  # the fraction of tokens that BERT masks
KEYS = ("token_ids", "token_type_ids", "attention_mask", "labels", "next_labels")  # of a batch


def mask_tokens(
    ids: Tensor,
    special: Tensor,
    mask_id: int,
    vocab_size: int,
    probability: float = MASKED,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Hide 15 % of the tokens: → (inputs, labels), (B, L) int64 each.

    Of the tokens chosen, 80 % become [MASK], 10 % a random token and 10 % stay as they are; the
    labels are their ids, and −100 everywhere else. Draws in the order of transformers'
    DataCollatorForLanguageModeling. Figure: docs/figures/pretraining.svg

    Args:
        ids: (B, L) int64.
        special: (B, L) bool, what is never chosen: [CLS], [SEP], [PAD] …
    """

    def coin(heads: float) -> Tensor:
        odds = torch.full(ids.shape, heads).masked_fill(special, 0.0)
        return torch.bernoulli(odds, generator=generator).bool()

    chosen = coin(probability)  # (B, L)
    labels = ids.masked_fill(~chosen, IGNORED)
    hidden = coin(0.8) & chosen
    replaced = coin(0.5) & chosen & ~hidden  # half of the other 20 %
    random_ids = torch.randint(vocab_size, ids.shape, generator=generator)
    inputs = torch.where(replaced, random_ids, ids.masked_fill(hidden, mask_id))
    return inputs, labels  # (B, L), (B, L)


def masked_positions(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Where the M masked tokens are, found on the CPU, so that nothing waits for a device.

    (B, L), IGNORED at all others → positions in the flattened (B · L) and their labels, (M,) each.
    """
    flat = cpu_copy(labels).flatten()  # (B · L)
    positions = (flat != IGNORED).nonzero().squeeze(1)  # (M,)
    return to_device(positions, labels.device), to_device(flat[positions], labels.device)


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
    model: nn.Module,
    ids: Tensor,
    segments: Tensor,
    mask: Tensor,
    labels: Tensor,
    relation: Tensor,
) -> dict[str, Sums]:
    """The predictions of masked words ("mlm") and, with two segments, of the second ("nsp").

    Args:
        model: a PretrainingModel.
        ids, segments, mask: (B, L) each.
        labels: (B, L), −100 where nothing is masked.
        relation: (B,), 0 where the second segment follows the first, 1 where it does not.
    """
    positions, targets = masked_positions(labels)  # (M,) each
    segments = segments if model.relation else None  # one segment: all 0, the default
    words, order = model(ids, mask, segments, positions)  # (M, V), (B, 2)
    heads = {"mlm": sums_of(words, targets)}
    return heads if order is None else heads | {"nsp": sums_of(order, relation)}
