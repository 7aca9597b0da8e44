"""Masked language modelling: which tokens are hidden, and behind what.

Devlin et al. 2019, section 3.1 and appendix A.
"""

from __future__ import annotations

import torch
from torch import Tensor

from training.loop.batches import cpu_copy, to_device

IGNORED = -100  # a label that cross_entropy leaves out
MASKED = 0.15  # the fraction of tokens that BERT masks


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
