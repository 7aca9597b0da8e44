"""R-Drop: two dropout masks, one answer.

Liang, Wu et al. 2021 ("R-Drop: Regularized Dropout for Neural Networks"), section 2.1. A batch goes
through the model twice, under two dropout masks, and both outputs should agree:

    L = −log P₁(y) − log P₂(y) + α · ½ [ KL(P₁‖P₂) + KL(P₂‖P₁) ]

All means are over the rows, so α means the same for every batch size. Code that halves the
cross-entropies, too, has an α that is half of this one. To try: α 0.1, 0.5, 1; 2 to 5 for small
sets. A step costs twice the rows. In the loop:

    outputs = model(*twice(ids, mask))  # (2 B, C)
    loss = r_drop(F.cross_entropy, symmetric_kl, outputs, labels, alpha)
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

Loss = Callable[[Tensor, Tensor], Tensor]


def r_drop(
    loss: Loss, divergence: Loss, outputs: Tensor, labels: Tensor, alpha: float = 1.0
) -> Tensor:
    """R-Drop's loss for the outputs of a batch that holds all rows twice.

    Args:
        loss: the task's own, (outputs, labels) → a number, a mean over rows.
        divergence: with both directions, such as symmetric_kl.
        outputs: (2 B, C) or (2 B,) of a model in training mode; row B + i is row i once more.
        labels: (B,).
    """
    first, second = outputs.chunk(2)
    return loss(first, labels) + loss(second, labels) + alpha / 2 * divergence(first, second)
