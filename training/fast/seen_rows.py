"""Word vectors of which only those are trained whose pieces occur in the training texts.

A row of the table that never has a gradient keeps m = v = 0 in AdamW and, without weight decay,
never moves; yet each step fills its gradient with zeros and passes over it and both averages. Here
all rows that can move are at the front of the table, and the optimizer knows of these alone. What
is computed stays the same to the bit. It is done where matrix products are so fast that this shows:
on CPUs that compute in bfloat16 (docs/measured.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from training.loop.devices import computes_bf16

MOST = 0.75  # of the table: with more rows nothing is won


class SeenRows(nn.Module):
    """In place of an ``nn.Embedding``, on its device; saved and loaded as that.

    Args:
        embedding: of V rows of D numbers; they are copied.
        seen: ids of the S rows that are trained. Others can be looked up in evaluation alone.
    """

    def __init__(self, embedding: nn.Embedding, seen: Tensor):
        super().__init__()
        weight = embedding.weight.detach()  # (V, D)
        is_seen = torch.zeros(len(weight), dtype=torch.bool, device=weight.device)
        is_seen[seen] = True
        self.order = torch.argsort(~is_seen, stable=True)  # of the ids, seen ones first: (V,)
        self.place = torch.argsort(self.order)  # of each id
        self.table = weight[self.order]  # (V, D)
        self.rows = nn.Parameter(self.table[: int(is_seen.sum())])  # (S, D), the same memory
        pad = embedding.padding_idx
        self.padding = None if pad is None else int(self.place[pad])

    def forward(self, ids: Tensor) -> Tensor:
        """Look up: (…) → (…, D)."""
        table = self.rows if self.training else self.table
        return F.embedding(self.place[ids], table, self.padding)

    def _save_to_state_dict(self, destination: dict, prefix: str, keep_vars: bool) -> None:
        destination[f"{prefix}weight"] = self.table[self.place]

    def _load_from_state_dict(
        self, state_dict: dict, prefix: str, _: dict, strict: bool, missing_keys: list, *others: Any
    ) -> None:
        weight = state_dict.get(f"{prefix}weight")
        if weight is None or weight.shape != self.table.shape:
            missing_keys.append(f"{prefix}weight")
        else:
            self.table.copy_(weight[self.order])


def train_seen_rows(bert: nn.Module, optimizer: Optimizer, texts: Iterable[Any]) -> str:
    """Let an optimizer move only those word vectors of a BERT that occur in data sets.

    Returns:
        what was done, for a line; "" if nothing was: products take most of the time here, the table
        is frozen, weight decay moves every row, or most of it is seen.
    """
    embedding = bert.word_embedding
    device = embedding.weight.device
    if device.type != "cpu" or not computes_bf16(device) or not embedding.weight.requires_grad:
        return ""
    for group in optimizer.param_groups:
        at = [i for i, p in enumerate(group["params"]) if p is embedding.weight]
        if at and not group["weight_decay"]:
            seen = {bert.config.pad_token_id}.union(*(rows.seen() for rows in texts))
            if len(seen) <= MOST * embedding.num_embeddings:
                bert.word_embedding = SeenRows(embedding, torch.tensor(sorted(seen), device=device))
                group["params"][at[0]] = bert.word_embedding.rows
                return f"{len(seen):,} of {embedding.num_embeddings:,} word vectors can move"
    return ""
