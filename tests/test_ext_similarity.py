"""Losses on sentence vectors, and their sampler, beside sentence-transformers, SciPy and NumPy."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import DTYPES
from torch import Tensor
from torch.nn import functional as F

from extensions.loss import cosine, divergences, ranking, simcse
from extensions.loss.r_drop import r_drop
from extensions.text.no_duplicates import NoDuplicates, groups
from training.loop.batches import LengthBatches

CHANCE = np.random.default_rng(8)
U, V, W = CHANCE.normal(size=(3, 6, 32))  # (B, D) each
V = 0.2 * U + V  # partners are a little alike, so that there is something left to learn
GRADES = torch.tensor([0.0, 5.0, 2.6, 2.6, 1.25, 3.8])
YES = torch.tensor([1, 0, 1, 1, 0, 0])
CLASSES = torch.tensor([0, 1, 0, 2, 1, 0])


def assert_same(ours, theirs, arrays, dtype, atol64: float = 1e-12) -> None:
    """Two functions of tensors: the same value, and the same gradient for every argument."""
    found = []
    for function in (ours, theirs):
        tensors = [torch.tensor(array, dtype=dtype, requires_grad=True) for array in arrays]
        value = function(*tensors)
        assert value.shape == ()
        assert value.dtype == dtype
        found.append((value.detach(), torch.autograd.grad(value, tensors)))
    (value, gradients), (expected, expected_gradients) = found
    if dtype == torch.float64:
        of_value, of_gradient = {"rtol": 0, "atol": atol64}, {"rtol": 0, "atol": max(1e-10, atol64)}
    else:
        of_value, of_gradient = {"rtol": 1e-6, "atol": 1e-6}, {"rtol": 1e-4, "atol": 1e-7}
    torch.testing.assert_close(value, expected, **of_value)
    for gradient, wanted in zip(gradients, expected_gradients, strict=True):
        assert wanted.abs().max() > 1e-3
        torch.testing.assert_close(gradient, wanted, **of_gradient)


def assert_gradient(function, *arrays) -> None:
    """Beside finite differences, in float64."""
    tensors = [torch.tensor(array, dtype=torch.float64, requires_grad=True) for array in arrays]
    assert torch.autograd.gradcheck(function, tensors, eps=1e-6, atol=1e-7, rtol=1e-6)


def value_of(function, *arrays) -> float:
    return function(*(torch.tensor(array, dtype=torch.float64) for array in arrays)).item()


@pytest.fixture(scope="module")
def theirs():
    """The losses of sentence-transformers, on vectors: a function of labels and them."""
    module = pytest.importorskip("sentence_transformers.sentence_transformer.losses")

    def make(name: str, **options):
        loss = getattr(module, name)(model=None, **options)
        return lambda labels, *vectors: loss.compute_loss_from_embeddings(list(vectors), labels)

    return make


def numpy_cosines(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.array([[a @ b / math.sqrt((a @ a) * (b @ b)) for b in v] for a in u])


# ---------------------------------------------------------------------------------------------
# Multiple negatives ranking

SYMMETRIC = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}


@DTYPES
@pytest.mark.parametrize("arrays", [(U, V), (U, V, W)], ids=["pairs", "hard"])
@pytest.mark.parametrize("symmetric", [False, True], ids=["one way", "symmetric"])
def test_ranking_is_that_of_sentence_transformers(theirs, dtype, arrays, symmetric):
    options = SYMMETRIC if symmetric else {}
    oracle = theirs("MultipleNegativesRankingLoss", scale=3.0, **options)
    assert_same(
        lambda u, v, *w: ranking.ranking(u, v, *w, scale=3.0, symmetric=symmetric),
        lambda *vectors: oracle(None, *vectors),
        arrays,
        dtype,
    )


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("symmetric", [False, True])
def test_ranking_of_nothing_to_rank_is_zero(rows, symmetric):
    u, v = (torch.tensor(array[:rows], requires_grad=True) for array in (U, V))
    loss = ranking.ranking(u, v, symmetric=symmetric)
    loss.backward()
    assert loss.item() == 0
    for gradient in (u.grad, v.grad):
        assert torch.allclose(gradient, torch.zeros(1, dtype=gradient.dtype), atol=1e-15)


# ---------------------------------------------------------------------------------------------
# Batches without a sentence twice


PAIRS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=40)


@settings(deadline=None)
@given(PAIRS, st.integers(1, 7), st.integers(0, 5), st.sampled_from([1, 3]), st.randoms())
def test_every_row_once_and_no_sentence_twice(pairs, size, epoch, largest, chance):
    """Rows that belong together come together, if a batch is large enough for them."""
    order = chance.sample(range(len(pairs)), len(pairs))
    units, last = [], 0
    while last < len(order):
        unit = order[last : last + chance.randint(1, largest)]
        last += len(unit)
        met = Counter(sentence for row in unit for sentence in set(pairs[row]))
        if max(met.values()) == 1:
            units.append(tuple(unit))
    batches = LengthBatches([3 + i * 7 % 20 for i in range(len(pairs))], size, 0)
    sampler = NoDuplicates(batches, pairs, units if largest > 1 else ())
    sampler.set_epoch(epoch)
    found = list(sampler)
    assert sorted(row for batch in found for row in batch) == list(range(len(pairs)))
    assert len(sampler) == len(found)
    home = {row: number for number, batch in enumerate(found) for row in batch}
    for unit in units:
        if len(unit) <= size:
            assert len({home[row] for row in unit}) == 1
    for batch in found:
        assert 1 <= len(batch) <= size
        met = Counter(sentence for row in batch for sentence in set(pairs[row]))
        assert set(met.values()) == {1}
    assert list(sampler) == found  # an epoch's order follows from its number alone


def test_groups_go_by_way_of_others():
    group = groups([("a", "b"), ("c", "d"), ("e", "c"), ("b", "f"), ("a", "a")])
    together = [{text for text in group if group[text] == number} for number in (0, 1)]
    assert sorted(map(sorted, together)) == [["a", "b", "f"], ["c", "d", "e"]]


# ---------------------------------------------------------------------------------------------
# CosineEmbeddingLoss, CoSENT


@DTYPES
def test_cosent_is_that_of_sentence_transformers(theirs, dtype):
    oracle = theirs("CoSENTLoss", scale=20.0)
    assert_same(
        lambda u, v: cosine.cosent(5 * cosine.cosine(u, v), GRADES),
        lambda u, v: oracle(GRADES, u, v),
        (U, V),
        dtype,
    )


def test_cosent_without_an_order_costs_nothing():
    same = torch.tensor([0.3, 0.9, -0.2], requires_grad=True)
    value = cosine.cosent(same, torch.tensor([2, 2, 2]))
    value.backward()
    assert value.item() == 0
    assert torch.equal(same.grad, torch.zeros(3))


@pytest.mark.parametrize("margin", [0.0, 0.15])
def test_cosine_embedding_by_hand(margin):
    c = np.diagonal(numpy_cosines(U, V))
    different = c[YES.numpy() == 0]
    assert different.min() < 0.15 < different.max()  # on both sides of the kink
    expected = np.mean(
        [1 - one if yes else max(0, one - margin) for one, yes in zip(c, YES, strict=True)]
    )

    def loss(u: Tensor, v: Tensor) -> Tensor:
        return cosine.cosine_embedding(u, v, YES, margin)

    assert value_of(loss, U, V) == pytest.approx(expected, abs=1e-12)
    assert_gradient(loss, U, V)


# ---------------------------------------------------------------------------------------------
# SimCSE


@DTYPES
def test_simcse_is_the_ranking_loss_at_scale_20(dtype):
    assert_same(lambda u, v: simcse.unsupervised(torch.cat([u, v])), ranking.ranking, (U, V), dtype)
    assert_same(simcse.supervised, ranking.ranking, (U, V, W), dtype)


def test_triplets_of_nli_rows():
    rows = [
        ("p", "p yes", "entailment"),
        ("q", "q no", "contradiction"),
        ("p", "p perhaps", "neutral"),
        ("r", "r no", "contradiction"),
        ("p", "p no", "contradiction"),
        ("p", "p too", "entailment"),
        ("r", "r yes", "entailment"),
        ("r", "r never", "contradiction"),
        ("r", "r still", "entailment"),
    ]
    assert simcse.triplets(rows) == [
        ("p", "p yes", "p no"),
        ("r", "r yes", "r no"),
        ("r", "r still", "r never"),
    ]


# ---------------------------------------------------------------------------------------------
# R-Drop

LOGITS_1, LOGITS_2 = CHANCE.normal(size=(2, 6, 5)) * 2


def both_directions(first: Tensor, second: Tensor) -> Tensor:
    """The same from torch's kl_div, with gradients through both of its arguments."""
    p, q = first.log_softmax(dim=-1), second.log_softmax(dim=-1)
    there = F.kl_div(q, p, reduction="batchmean", log_target=True)
    return there + F.kl_div(p, q, reduction="batchmean", log_target=True)


def bernoulli(logits: Tensor) -> Tensor:
    return torch.stack([logits, torch.zeros_like(logits)], dim=-1)  # (B, 2)


@DTYPES
def test_symmetric_kl_beside_torch(dtype):
    assert_same(divergences.symmetric_kl, both_directions, (LOGITS_1, LOGITS_2), dtype)
    assert_same(
        divergences.symmetric_kl,
        lambda first, second: both_directions(bernoulli(first), bernoulli(second)),
        (LOGITS_1[:, 0], LOGITS_2[:, 0]),
        dtype,
    )


def test_squared_difference_by_hand():
    first, second = CHANCE.uniform(0, 5, size=(2, 6))
    expected = np.mean((first - second) ** 2) / 25
    assert value_of(divergences.squared_difference, first, second) == pytest.approx(
        expected, abs=1e-12
    )
    assert_gradient(divergences.squared_difference, first, second)


@DTYPES
def test_r_drop_is_the_papers_formula(dtype):
    def paper(first: Tensor, second: Tensor) -> Tensor:
        rows = range(6)
        p, q = first.softmax(-1), second.softmax(-1)
        nll = -sum(p[i, CLASSES[i]].log() + q[i, CLASSES[i]].log() for i in rows)
        kl = sum((p[i] * (p[i] / q[i]).log() + q[i] * (q[i] / p[i]).log()).sum() for i in rows)
        return (nll + 0.7 * kl / 2) / 6

    def ours(first: Tensor, second: Tensor) -> Tensor:
        outputs = torch.cat([first, second])
        return r_drop(F.cross_entropy, divergences.symmetric_kl, outputs, CLASSES, alpha=0.7)

    assert_same(ours, paper, (LOGITS_1, LOGITS_2), dtype)


FUNCTIONS = {
    "ranking": lambda u, v: ranking.ranking(u, v, symmetric=True),
    "cosine_embedding": lambda u, v: cosine.cosine_embedding(u, v, YES),
    "cosent": lambda u, v: cosine.cosent(u[:, 0], GRADES),
    "symmetric_kl": divergences.symmetric_kl,
    "squared_difference": lambda u, v: divergences.squared_difference(u[:, 0], v[:, 0]),
}


@pytest.mark.parametrize("loss", FUNCTIONS.values(), ids=FUNCTIONS)
def test_all_compute_in_float32(loss):
    """Of bf16 vectors, and under autocast, the loss is that of the same vectors in float32."""
    u, v = (torch.tensor(array).bfloat16() for array in (U, V))
    expected = loss(u.float(), v.float())
    value = loss(u, v)
    assert value.dtype == torch.float32
    assert value.item() == expected.item()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert loss(u.float(), v.float()).item() == pytest.approx(expected.item(), abs=1e-6)
