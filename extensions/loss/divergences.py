"""How far apart two outputs of a model are, as SMART and R-Drop measure it.

    KL(P‖Q) + KL(Q‖P) = Σ (p − q)(log p − log q)        Jiang et al. 2020, section 2.1 (ℓ_s)

Nothing is detached: the gradient reaches both sides of each KL.
"""

from __future__ import annotations

import torch
from torch import Tensor

HIGHEST_SIMILARITY = 5.0


def symmetric_kl(first: Tensor, second: Tensor) -> Tensor:
    """The sum above, the mean over rows, of logits (B, C) of C classes, or (B,) of "yes"."""
    first, second = wide(first), wide(second)
    if first.dim() == 1:  # P is (σ(a), σ(−a)), with log-odds a
        return ((first.sigmoid() - second.sigmoid()) * (first - second)).mean()
    log_p, log_q = first.log_softmax(dim=-1), second.log_softmax(dim=-1)  # (B, C)
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(dim=-1).mean()


def squared_difference(first: Tensor, second: Tensor) -> Tensor:
    """The mean of ((a − b) / 5)² of similarities (B,) from 0 to 5 (Jiang et al., section 3.1)."""
    return ((wide(first) - wide(second)) / HIGHEST_SIMILARITY).square().mean()


def wide(tensor: Tensor) -> Tensor:
    """In float32 at least: half precision has too few digits for differences of logarithms."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
