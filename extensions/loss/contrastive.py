"""Added to a classifier's own loss: supervised contrastive learning, and R-Drop.

Supervised contrastive loss (Khosla et al. 2020, equation 2; for fine-tuning BERT Gunel et al. 2021,
equations 1 and 3). Sentences of one class should lie together, with z of length 1, P(i) the other
rows with i's label, A(i) all rows but i:

    L = −(1/B) Σ_i 1/|P(i)| Σ_{p ∈ P(i)} log [ exp(z_i·z_p / τ) / Σ_{a ∈ A(i)} exp(z_i·z_a / τ) ]

added to cross-entropy as CE + w L. Gunel et al. weigh (1 − λ) CE + λ L: but for the gradient's
length that is w = λ / (1 − λ), 9 for their λ = 0.9. To try: τ = 0.3, w = 0.1 to 1.
It compares the rows of a batch: no --accumulate, one process, 16 rows and more for five classes.

R-Drop (Liang, Wu et al. 2021, "R-Drop: Regularized Dropout for Neural Networks", section 2.1). A
batch goes through the model twice, under two dropout masks, and both outputs should agree:

    L = −log P₁(y) − log P₂(y) + α · ½ [ KL(P₁‖P₂) + KL(P₂‖P₁) ]

with gradients through both sides of both KL terms. All means are over the rows, so that α means the
same for every batch size, and parts of a batch add up. (The authors' BERT code sums KL over the
batch. Code that halves the cross-entropies, too, has an α that is half of this one.) To try: α 0.1,
0.5, 1, and 2 to 5 for small sets. It costs twice the rows a step.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from extensions.loss.divergences import wide


def supervised_contrastive(vectors: Tensor, labels: Tensor, temperature: float = 0.3) -> Tensor:
    """The loss above; rows that are the only ones of their class add 0 to the mean.

    Args:
        vectors: (B, D), of any length.
        labels: (B,) classes.
    """
    with torch.autocast(vectors.device.type, enabled=False):
        z = F.normalize(wide(vectors), dim=-1)  # (B, D)
        logits = z @ z.T / temperature  # (B, B)
    itself = torch.eye(len(z), dtype=torch.bool, device=z.device)  # (B, B)
    log_share = logits.masked_fill(itself, -torch.inf).log_softmax(dim=1)  # (B, B)
    partners = (labels[:, None] == labels[None, :]) & ~itself  # (B, B)
    sums = log_share.masked_fill(~partners, 0.0).sum(dim=1)  # (B,)
    return -(sums / partners.sum(dim=1).clamp(min=1)).mean()


def r_drop(
    loss: Callable[[Tensor, Tensor], Tensor],
    divergence: Callable[[Tensor, Tensor], Tensor],
    outputs: Tensor,
    labels: Tensor,
    alpha: float = 1.0,
) -> Tensor:
    """R-Drop's loss for the outputs of a batch that holds all rows twice.

    Args:
        loss: the task's own, (outputs, labels) → a number, a mean over rows.
        divergence: with both directions, such as symmetric_kl for classes and for yes or no.
        outputs: (2 B, C) or (2 B,) of a model in training mode; row B + i is row i once more.
        labels: (B,).
    """
    first, second = outputs.chunk(2)
    return loss(first, labels) + loss(second, labels) + alpha / 2 * divergence(first, second)
