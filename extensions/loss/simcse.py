"""SimCSE: contrastive learning of sentence vectors (Gao et al. 2021).

Unsupervised, equation 4: a sentence goes through BERT twice, under two dropout masks; its two
vectors h, h⁺ belong together, the other sentences of the batch are the negatives:

    ℓ_i = −log exp(cos(h_i, h_i⁺) / τ) / Σ_j exp(cos(h_i, h_j⁺) / τ),  τ = 0.05

Supervised, equation 5: h⁺ is a sentence that follows from h's (entailment), and the denominator has
a hard negative h⁻ for each row, one that contradicts:

    ℓ_i = −log exp(c⁺_ii / τ) / Σ_j [exp(c⁺_ij / τ) + exp(c⁻_ij / τ)],  c⁺_ij = cos(h_i, h_j⁺)

Both are ``ranking`` at scale 1 / τ = 20. The paper's batches are 64, supervised 512. To try: τ, the
pooling (the paper trains with a layer on [CLS] and tests without it). In the loop:

    loss = loss + 0.1 * ranking(*pooled(bert(*twice(ids, mask))).chunk(2))  # in training mode
    loss = loss + 0.1 * ranking(u[right], v[right], v[wrong])  # by ``triplets`` of the batch
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import torch
from torch import Tensor

from training.loop.batches import on_host, to_device


def twice(*tensors: Tensor) -> tuple[Tensor, ...]:
    """A batch with all rows twice, (B, …) → (2 B, …) each, so that each row meets two masks."""
    return tuple(to_device(torch.cat([on_host(x)] * 2), x.device) for x in tensors)


def triplets(rows: Iterable[tuple[Hashable, Hashable, str]]) -> list[tuple]:
    """(premise, entailment, contradiction) of NLI rows (premise, hypothesis, relation).

    Premises without one of the two are left out; one with several of both gives a triplet for each
    of the shorter list. The order is that of the premises' first rows.
    """
    by_premise: dict[Hashable, dict[str, list]] = {}
    for premise, hypothesis, relation in rows:
        kinds = by_premise.setdefault(premise, {"entailment": [], "contradiction": []})
        if relation in kinds:
            kinds[relation].append(hypothesis)
    return [
        (premise, *pair)
        for premise, kinds in by_premise.items()
        for pair in zip(kinds["entailment"], kinds["contradiction"], strict=False)
    ]
