"""SimCSE: contrastive learning of sentence vectors, without labels (Gao et al. 2021, equation 4).

A sentence goes through BERT twice, under two dropout masks; its two vectors h, h⁺ belong together,
the other sentences of the batch are the negatives:

    ℓ_i = −log exp(cos(h_i, h_i⁺) / τ) / Σ_j exp(cos(h_i, h_j⁺) / τ),  τ = 0.05

The model has to be in training mode: without dropout the two vectors are the same, and nothing
pulls. The paper's batches are 64. To try: τ, the pooling. In the loop:

    loss = loss + 0.1 * simcse(pooled(bert(ids, mask)), pooled(bert(ids, mask)))
"""

from __future__ import annotations

from torch import Tensor

from extensions.loss.ranking import ranking


def simcse(vectors: Tensor, again: Tensor, temperature: float = 0.05) -> Tensor:
    """The mean of the loss above, of the vectors (B, D) of two passes."""
    return ranking(vectors, again, scale=1 / temperature)
