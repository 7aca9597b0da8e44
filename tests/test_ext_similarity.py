"""Losses on outputs and on vectors, beside sentence-transformers, torch and NumPy; the sampler."""

from collections import Counter

import numpy as np
import pytest
import torch
from factories import DTYPES
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from extensions.loss import cosine, divergences, ranking
from extensions.loss.r_drop import r_drop
from extensions.loss.simcse import simcse
from extensions.text.no_duplicates import NoDuplicates
from training.loop.batches import LengthBatches

CHANCE = np.random.default_rng(8)
U, V, W = CHANCE.normal(size=(3, 6, 32))  # (B, D) each
V = 0.2 * U + V  # partners are a little alike, so that there is something left to learn
LOGITS_1, LOGITS_2 = CHANCE.normal(size=(2, 6, 5)) * 2
SCORES_1, SCORES_2 = CHANCE.uniform(0, 5, size=(2, 6))
GRADES = torch.tensor([0.0, 5.0, 2.6, 2.6, 1.25, 3.8])
YES = torch.tensor([1, 0, 1, 1, 0, 0])
CLASSES = torch.tensor([0, 1, 0, 2, 1, 0])

# ---------------------------------------------------------------------------------------------
# Values and gradients


def theirs(name: str, labels: Tensor | None = None, **options):
    """A loss of sentence-transformers as a function of vectors."""

    def loss(*vectors: Tensor) -> Tensor:
        module = pytest.importorskip("sentence_transformers.sentence_transformer.losses")
        made = getattr(module, name)(model=None, **options)
        return made.compute_loss_from_embeddings(list(vectors), labels)

    return loss


RANKING = "MultipleNegativesRankingLoss"
SYMMETRIC = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}


def symmetric_ranking(*vectors: Tensor) -> Tensor:
    return ranking.ranking(*vectors, scale=3.0, symmetric=True)


def both_directions(first: Tensor, second: Tensor) -> Tensor:
    """The same from torch's kl_div, with gradients through both of its arguments."""
    p, q = first.log_softmax(dim=-1), second.log_softmax(dim=-1)
    there = F.kl_div(q, p, reduction="batchmean", log_target=True)
    return there + F.kl_div(p, q, reduction="batchmean", log_target=True)


def yes_or_no(logits: Tensor) -> Tensor:
    return torch.stack([logits, torch.zeros_like(logits)], dim=-1)  # (B, 2)


def hinge(u: Tensor, v: Tensor) -> Tensor:
    """1 − c of what means the same, max(0, c) of what does not."""
    c = (F.normalize(u) * F.normalize(v)).sum(dim=1)
    different = c.clamp(min=0)
    assert 0 < (different[YES == 0] > 0).sum() < 3  # on both sides of the kink
    return torch.where(YES == 1, 1 - c, different).mean()


def r_drop_as_printed(first: Tensor, second: Tensor) -> Tensor:
    p, q = first.softmax(-1), second.softmax(-1)
    nll = -sum(p[i, CLASSES[i]].log() + q[i, CLASSES[i]].log() for i in range(6))
    kl = sum((p[i] * (p[i] / q[i]).log() + q[i] * (q[i] / p[i]).log()).sum() for i in range(6))
    return (nll + 0.7 * kl / 2) / 6


def our_r_drop(first: Tensor, second: Tensor) -> Tensor:
    outputs = torch.cat([first, second])
    return r_drop(F.cross_entropy, divergences.symmetric_kl, outputs, CLASSES, alpha=0.7)


LOSSES = {  # ours, the oracle, and their arguments
    "ranking": (
        lambda u, v: ranking.ranking(u, v, scale=3.0),
        theirs(RANKING, scale=3.0),
        (U, V),
    ),
    "ranking, hard": (
        lambda u, v, w: ranking.ranking(u, v, w, scale=3.0),
        theirs(RANKING, scale=3.0),
        (U, V, W),
    ),
    "symmetric": (symmetric_ranking, theirs(RANKING, scale=3.0, **SYMMETRIC), (U, V)),
    "symmetric, hard": (symmetric_ranking, theirs(RANKING, scale=3.0, **SYMMETRIC), (U, V, W)),
    "cosent": (
        lambda u, v: cosine.cosent(5 * cosine.cosine(u, v), GRADES),
        theirs("CoSENTLoss", GRADES, scale=20.0),
        (U, V),
    ),
    "cosine embedding": (lambda u, v: cosine.cosine_embedding(u, v, YES), hinge, (U, W)),
    "simcse": (simcse, theirs(RANKING, scale=20.0), (U, V)),
    "symmetric kl": (divergences.symmetric_kl, both_directions, (LOGITS_1, LOGITS_2)),
    "symmetric kl of yes or no": (
        divergences.symmetric_kl,
        lambda first, second: both_directions(yes_or_no(first), yes_or_no(second)),
        (LOGITS_1[:, 0], LOGITS_2[:, 0]),
    ),
    "squared difference": (
        divergences.squared_difference,
        lambda first, second: F.mse_loss(first, second) / 25,
        (SCORES_1, SCORES_2),
    ),
    "r_drop": (our_r_drop, r_drop_as_printed, (LOGITS_1, LOGITS_2)),
}


@DTYPES
@pytest.mark.parametrize("name", LOSSES)
def test_values_and_gradients_are_those_of_the_oracle(name, dtype):
    ours, oracle, arrays = LOSSES[name]
    results = []
    for function in (ours, oracle):
        tensors = [torch.tensor(array, dtype=dtype, requires_grad=True) for array in arrays]
        value = function(*tensors)
        assert value.shape == ()
        assert value.dtype == dtype
        results.append((value.detach(), torch.autograd.grad(value, tensors)))
    (value, gradients), (expected, wanted) = results
    fine = dtype == torch.float64
    torch.testing.assert_close(value, expected, rtol=1e-6, atol=1e-12 if fine else 1e-6)
    for gradient, other in zip(gradients, wanted, strict=True):
        assert other.abs().max() > 1e-3
        torch.testing.assert_close(gradient, other, rtol=1e-4, atol=1e-10 if fine else 1e-7)


@pytest.mark.parametrize("name", ["symmetric", "cosine embedding", "cosent", "symmetric kl"])
def test_all_compute_in_float32(name):
    """Of bf16 vectors, and under autocast, the loss is that of the same vectors in float32."""
    loss, _, arrays = LOSSES[name]
    u, v = (torch.tensor(array).bfloat16() for array in arrays)
    expected = loss(u.float(), v.float())
    value = loss(u, v)
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(expected.item(), abs=1e-6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert loss(u.float(), v.float()).item() == pytest.approx(expected.item(), abs=1e-6)


# ---------------------------------------------------------------------------------------------
# Which rows meet in a batch

PAIRS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=40)


@settings(deadline=None)
@given(PAIRS, st.integers(1, 7), st.integers(0, 5))
def test_every_row_once_and_no_sentence_twice(pairs, size, epoch):
    lengths = LengthBatches([3 + i * 7 % 20 for i in range(len(pairs))], size, 0)
    sampler = NoDuplicates(lengths, pairs)
    sampler.set_epoch(epoch)
    batches = list(sampler)
    assert sorted(row for batch in batches for row in batch) == list(range(len(pairs)))
    assert len(sampler) == len(batches)
    for batch in batches:
        assert 1 <= len(batch) <= size
        met = Counter(sentence for row in batch for sentence in set(pairs[row]))
        assert set(met.values()) == {1}
    assert list(sampler) == batches  # an epoch's order follows from its number alone
