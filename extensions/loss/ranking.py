"""Multiple negatives ranking: a text has to find its own partner among those of the whole batch.

For K pairs (x_i, y_i) that mean the same (Henderson et al. 2017, "Efficient Natural Language
Response Suggestion for Smart Reply"), with S = 20 · cosine:

    J = −(1/K) Σ_i [ S(x_i, y_i) − log Σ_j exp S(x_i, y_j) ]

Other names: InfoNCE, NT-Xent without the negatives on the same side.
It needs vectors of single sentences (no cross encoding), pairs that do mean the same (Quora's
label 1, STS from 4 on), large batches (K − 1 is the number of negatives) and no sentence twice in a
batch (no_duplicates.py). To try: scale 10 to 50; symmetric. In the loop:

    same, different = labels == 1, labels == 0
    loss = loss + 0.1 * ranking(u[same], v[same], v[different])
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from extensions.loss.divergences import wide


def info_nce(scores: Tensor) -> Tensor:
    """−(1/B) Σ_i log softmax(scores_i)_i (van den Oord et al. 2018, equation 4); 0 without rows.

    Args:
        scores: (B, C) with C ≥ B; in row i the right candidate is number i.
    """
    right = torch.arange(len(scores), device=scores.device)  # (B,)
    return F.cross_entropy(scores, right, reduction="sum") / max(1, len(scores))


def cosines(u: Tensor, v: Tensor) -> Tensor:
    """The cosine of each with each: (B, D), (C, D) → (B, C), in float32 even under autocast."""
    with torch.autocast(u.device.type, enabled=False):
        return F.normalize(wide(u), dim=-1) @ F.normalize(wide(v), dim=-1).T  # (B, C)


def ranking(
    anchors: Tensor,
    positives: Tensor,
    negatives: Tensor | None = None,
    scale: float = 20.0,
    symmetric: bool = False,
) -> Tensor:
    """The loss above, for pairs that all mean the same; 0 for a single pair without negatives.

    Args:
        anchors, positives: (B, D), row i of the one belongs to row i of the other.
        negatives: (M, D), further negatives for every anchor, hard ones if they look right: the
            contradictions of NLI, the partners in pairs with label 0.
        scale: S = scale · cosine, 1 / temperature.
        symmetric: the mean of that and of finding the anchor for each positive (Radford et al.
            2021, "CLIP", figure 3). Negatives have no anchor to find.
    """
    candidates = positives if negatives is None else torch.cat([positives, negatives])  # (B + M, D)
    loss = info_nce(scale * cosines(anchors, candidates))
    if symmetric:
        loss = (loss + info_nce(scale * cosines(positives, anchors))) / 2
    return loss
