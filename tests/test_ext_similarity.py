"""Losses on sentence vectors, and their sampler, beside sentence-transformers, SciPy and NumPy."""

import math
from collections import Counter

import numpy as np
import pytest
import scipy.sparse
import scipy.special
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import DTYPES, tiny_config
from torch import Tensor
from torch.nn import functional as F

from bert import BertModel
from extensions.loss import contrastive, cosine, divergences, losses, ranking, simcse
from extensions.text.no_duplicates import NoDuplicates, groups
from multitask_classifier import paraphrase_loss, similarity_loss
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
@pytest.mark.parametrize("scale", [20.0, 3.0])
@pytest.mark.parametrize("arrays", [(U, V), (U, V, W)], ids=["pairs", "hard"])
@pytest.mark.parametrize("symmetric", [False, True], ids=["one way", "symmetric"])
def test_ranking_is_that_of_sentence_transformers(theirs, dtype, scale, arrays, symmetric):
    options = SYMMETRIC if symmetric else {}
    oracle = theirs("MultipleNegativesRankingLoss", scale=scale, **options)
    assert_same(
        lambda u, v, *w: ranking.ranking(u, v, *w, scale=scale, symmetric=symmetric),
        lambda *vectors: oracle(None, *vectors),
        arrays,
        dtype,
    )


def henderson(scores: np.ndarray) -> float:
    """J as it is printed, with a loop."""
    rows = range(len(scores))
    return -np.mean([scores[i, i] - math.log(sum(map(math.exp, scores[i]))) for i in rows])


def test_ranking_is_the_papers_formula():
    assert value_of(ranking.ranking, U, V) == pytest.approx(
        henderson(20 * numpy_cosines(U, V)), abs=1e-12
    )
    assert_gradient(ranking.ranking, U, V)
    few = W[:2]  # as many negatives as there are, not one for each row
    scores = np.hstack([numpy_cosines(U, V), numpy_cosines(U, few)])
    assert value_of(ranking.ranking, U, V, few) == pytest.approx(henderson(20 * scores), abs=1e-12)


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("symmetric", [False, True])
def test_ranking_of_nothing_to_rank_is_zero(rows, symmetric):
    u, v = (torch.tensor(array[:rows], requires_grad=True) for array in (U, V))
    loss = ranking.ranking(u, v, symmetric=symmetric)
    loss.backward()
    assert loss.item() == 0
    for gradient in (u.grad, v.grad):
        assert torch.allclose(gradient, torch.zeros(1, dtype=gradient.dtype), atol=1e-15)


LOSSES = {
    "ranking": lambda u, v: ranking.ranking(u, v, symmetric=True),
    "simcse": lambda u, v: simcse.supervised(u, v, v.roll(1, 0)),
    "supcon": lambda u, v: contrastive.supervised_contrastive(u, CLASSES),
    "cosine_embedding": lambda u, v: cosine.cosine_embedding(u, v, YES),
    "ranked": lambda u, v: cosine.ranked(cosine.cosine(u, v), GRADES),
    "angle": lambda u, v: cosine.angle(u, v, GRADES),
    "cosent": lambda u, v: losses.cosent(u[:, 0], GRADES),
    "ordinal": lambda u, v: losses.ordinal(u[:, :5], CLASSES),
    "symmetric_kl": divergences.symmetric_kl,
    "squared_difference": lambda u, v: divergences.squared_difference(u[:, 0], v[:, 0]),
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_all_compute_in_float32(loss):
    """Of bf16 vectors, and under autocast, the loss is that of the same vectors in float32."""
    u, v = (torch.tensor(array).bfloat16() for array in (U, V))
    expected = loss(u.float(), v.float())
    value = loss(u, v)
    assert value.dtype == torch.float32
    assert value.item() == expected.item()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert loss(u.float(), v.float()).item() == pytest.approx(expected.item(), abs=1e-6)


# ---------------------------------------------------------------------------------------------
# Batches without a sentence twice


def batches_of(keys, size: int, seed: int = 0) -> NoDuplicates:
    lengths = [3 + i * 7 % 20 for i in range(len(keys))]
    return NoDuplicates(LengthBatches(lengths, size, seed), keys)


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
    sampler.set_epoch(epoch, skip=1)
    assert list(sampler) == found[1:]


def test_without_repetitions_the_batches_are_the_other_samplers():
    keys = [(f"a{i}", f"b{i}") for i in range(41)]
    sampler = batches_of(keys, 4, seed=3)
    sampler.set_epoch(2)
    plain = LengthBatches(sampler.batches.lengths, 4, seed=3)
    plain.set_epoch(2)
    assert list(sampler) == list(plain)
    assert len(sampler) == len(plain) == 11


def test_a_resumed_epoch_goes_on_where_it_stopped():
    keys = [(i % 9, 100 + i) for i in range(50)]
    sampler = batches_of(keys, 8)
    sampler.set_epoch(4)
    whole = list(sampler)
    assert list(sampler) == whole
    for skip in (1, 5, len(whole)):
        again = batches_of(keys, 8)
        again.set_epoch(4, skip=skip)
        assert len(again) == len(whole)
        assert list(again) == whole[skip:]
    other_epoch, other_seed = batches_of(keys, 8), batches_of(keys, 8, seed=1)
    other_epoch.set_epoch(5)
    other_seed.set_epoch(4)
    assert whole != list(other_epoch)
    assert whole != list(other_seed)


def test_what_waits_fills_the_gaps():
    """A batch's own rows come first: 1 waits for the gap that 3 leaves, and that for the end."""
    base = LengthBatches([1] * 6, 2, 0)
    base.__class__ = type("InOrder", (LengthBatches,), {"__iter__": lambda _: iter(ROWS)})
    keys = ["x1", "x2", "y3", "y4", "56", "78"]
    assert list(NoDuplicates(base, keys)) == [[0], [2, 1], [4, 5], [3]]


ROWS = [[0, 1], [2, 3], [4, 5]]


@settings(deadline=None)
@given(PAIRS)
def test_groups_are_the_connected_components(pairs):
    leaders = groups(pairs)
    first, second = zip(*pairs, strict=True)
    graph = scipy.sparse.coo_array((np.ones(len(pairs)), (first, second)), shape=(13, 13))
    _, component = scipy.sparse.csgraph.connected_components(graph, directed=False)
    assert set(leaders) == {one for pair in pairs for one in pair}
    for a in leaders:
        assert leaders[a] in leaders
        for b in leaders:
            assert (leaders[a] == leaders[b]) == (component[a] == component[b])


# ---------------------------------------------------------------------------------------------
# Cosine, CosineEmbeddingLoss, CoSENT, AnglE


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


def test_cosine_embedding_refuses_grades():
    vectors = torch.tensor(U)
    for labels in (GRADES, 2 * YES - 1):
        with pytest.raises(ValueError, match="labels 0 and 1 only"):
            cosine.cosine_embedding(vectors, vectors, labels)


@DTYPES
@pytest.mark.parametrize("scale", [20.0, 1.0])
@pytest.mark.parametrize("name", ["CoSENTLoss", "AnglELoss"])
def test_ranked_losses_are_those_of_sentence_transformers(theirs, dtype, scale, name):
    oracle = theirs(name, scale=scale)
    similarity = {"CoSENTLoss": cosine.cosine, "AnglELoss": cosine.angle_similarity}[name]
    assert_same(
        lambda u, v: cosine.ranked(similarity(u, v), GRADES, scale),
        lambda u, v: oracle(GRADES, u, v),
        (U, V),
        dtype,
    )


def numpy_angle_similarity(u: np.ndarray, v: np.ndarray) -> list[float]:
    """Z / w as the authors' code has it: quotient by quotient, then the lengths, then the sum."""
    found = []
    half = u.shape[1] // 2
    for row_u, row_v in zip(u, v, strict=True):
        z, w = (row[:half] + 1j * row[half:] for row in (row_u, row_v))
        quotients = z * w.conj() / np.sum(np.abs(w) ** 2)
        quotients = quotients / (np.linalg.norm(z) / np.linalg.norm(w))
        found.append(abs(quotients.real.sum() + quotients.imag.sum()))
    return found


def test_angle_is_the_authors_formula():
    expected = numpy_angle_similarity(U, V)
    ours = cosine.angle_similarity(torch.tensor(U), torch.tensor(V))
    np.testing.assert_allclose(ours.numpy(), expected, rtol=0, atol=1e-12)
    total = 1.0 + sum(
        math.exp(20 * (expected[i] - expected[j]))
        for i in range(6)
        for j in range(6)
        if GRADES[i] < GRADES[j]
    )
    value = value_of(lambda u, v: cosine.angle(u, v, GRADES), U, V)
    assert value == pytest.approx(math.log(total), abs=1e-12)
    assert_gradient(lambda u, v: cosine.angle(u, v, GRADES), U, V)


def test_what_the_angle_knows():
    u, v = torch.tensor(U), torch.tensor(V)
    ones = torch.ones(6, dtype=u.dtype)
    torch.testing.assert_close(cosine.angle_similarity(u, 3 * u), ones)
    torch.testing.assert_close(cosine.angle_similarity(u, -u), ones)  # the price of |·|
    with pytest.raises(ValueError, match="those of 7 numbers"):
        cosine.angle_similarity(u[:, :7], v[:, :7])


def test_ranked_without_an_order_costs_nothing():
    same = torch.tensor([0.3, 0.9, -0.2], requires_grad=True)
    value = cosine.ranked(same, torch.tensor([2, 2, 2]))
    value.backward()
    assert value.item() == 0
    assert torch.equal(same.grad, torch.zeros(3))


# ---------------------------------------------------------------------------------------------
# SimCSE


@DTYPES
def test_simcse_is_the_ranking_loss_at_scale_20(dtype):
    assert_same(lambda u, v: simcse.unsupervised(torch.cat([u, v])), ranking.ranking, (U, V), dtype)
    assert_same(simcse.supervised, ranking.ranking, (U, V, W), dtype)


def test_two_views_need_dropout():
    torch.manual_seed(0)
    bert = BertModel(tiny_config())
    ids, mask = torch.tensor([[2, 9, 8, 3], [2, 7, 3, 0]]), torch.tensor([[1] * 4, [1, 1, 1, 0]])
    doubled = simcse.twice(ids, mask)
    assert [one.tolist() for one in doubled] == [2 * ids.tolist(), 2 * mask.tolist()]
    vectors = bert.eval()(*doubled)["pooler_output"]  # (4, D)
    first, second = vectors.chunk(2)
    torch.testing.assert_close(first, second)
    torch.testing.assert_close(first, bert(ids, mask)["pooler_output"])
    first, second = bert.train()(*doubled)["pooler_output"].chunk(2)
    assert F.cosine_similarity(first, second).max() < 0.999


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
# Supervised contrastive learning


def numpy_supervised_contrastive(vectors, labels, temperature: float) -> float:
    """Khosla's equation 2, with its sets written out; a mean where the paper has a sum."""
    z = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = range(len(z))
    total = 0.0
    for i in rows:
        others = [a for a in rows if a != i]
        partners = [p for p in others if labels[p] == labels[i]]
        below = sum(math.exp(z[i] @ z[a] / temperature) for a in others)
        for p in partners:
            total -= math.log(math.exp(z[i] @ z[p] / temperature) / below) / len(partners)
    return total / len(z)


@pytest.mark.parametrize("temperature", [0.07, 0.3])
def test_supervised_contrastive_is_the_papers_formula(temperature):
    """Row 3 is the only one of its class, and counts as 0."""

    def loss(vectors: Tensor) -> Tensor:
        return contrastive.supervised_contrastive(vectors, CLASSES, temperature)

    expected = numpy_supervised_contrastive(U, CLASSES.tolist(), temperature)
    assert value_of(loss, U) == pytest.approx(expected, abs=1e-12)
    single = torch.tensor(U, dtype=torch.float32)
    assert loss(single).item() == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert_gradient(loss, U)


@pytest.mark.parametrize("labels", [[0], [0, 1, 2]])
def test_supervised_contrastive_without_partners_is_zero(labels):
    vectors = torch.tensor(U[: len(labels)], requires_grad=True)
    loss = contrastive.supervised_contrastive(vectors, torch.tensor(labels))
    loss.backward()
    assert loss.item() == 0
    assert torch.equal(vectors.grad, torch.zeros_like(vectors))


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


def test_symmetric_kl_beside_scipy():
    p, q = (scipy.special.softmax(x, axis=1) for x in (LOGITS_1, LOGITS_2))
    expected = np.mean(scipy.stats.entropy(p, q, axis=1) + scipy.stats.entropy(q, p, axis=1))
    value = value_of(divergences.symmetric_kl, LOGITS_1, LOGITS_2)
    assert value == pytest.approx(expected, abs=1e-12)
    assert_gradient(divergences.symmetric_kl, LOGITS_1, LOGITS_2)
    assert_gradient(divergences.symmetric_kl, LOGITS_1[:, 0], LOGITS_2[:, 0])


def test_symmetric_kl_of_equal_and_of_sure_outputs():
    first = torch.tensor(LOGITS_1)
    same = first.clone().requires_grad_()
    value = divergences.symmetric_kl(same, first)
    value.backward()
    assert value.item() == 0
    assert same.grad.abs().max() < 1e-15
    sure = torch.tensor([900.0, -900.0])  # log-odds at which p is 1 and 0
    assert divergences.symmetric_kl(sure, -sure).item() == 1800


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
        return contrastive.r_drop(
            F.cross_entropy, divergences.symmetric_kl, outputs, CLASSES, alpha=0.7
        )

    assert_same(ours, paper, (LOGITS_1, LOGITS_2), dtype)


R_DROP = {
    "classes": (F.cross_entropy, divergences.symmetric_kl, LOGITS_1, LOGITS_2, CLASSES),
    "yes or no": (
        paraphrase_loss,
        divergences.symmetric_kl,
        LOGITS_1[:, 0],
        LOGITS_2[:, 0],
        YES,
    ),
    "scores": (
        similarity_loss,
        divergences.squared_difference,
        U[:, 0] + 2,
        V[:, 0] + 2,
        GRADES,
    ),
}


@pytest.mark.parametrize(
    ("loss", "divergence", "first", "second", "labels"), R_DROP.values(), ids=R_DROP
)
def test_r_drop_of_half_batches_adds_up(loss, divergence, first, second, labels):
    """So --accumulate may stay; and without dropout it is twice the plain loss."""

    def whole(rows: slice, other=second) -> float:
        outputs = torch.tensor(np.concatenate([first[rows], other[rows]]))
        return contrastive.r_drop(loss, divergence, outputs, labels[rows]).item()

    halves = np.mean([whole(slice(3)), whole(slice(3, 6))])
    assert halves == pytest.approx(whole(slice(6)), rel=1e-6)
    plain = loss(torch.tensor(first), labels).item()
    assert whole(slice(6), other=first) == pytest.approx(2 * plain, rel=1e-6)


def test_losses_of_half_batches():
    """Those with a target of its own for each row add up; those that rank rows do not, and have
    fewer negatives: the reason for refusing --accumulate and several processes.
    """
    u, v = torch.tensor(U), torch.tensor(V)

    def halves(loss) -> float:
        return sum(loss(u[rows], v[rows], rows).item() for rows in (slice(3), slice(3, 6))) / 2

    def whole(loss) -> float:
        return loss(u, v, slice(6)).item()

    def embedding(a, b, rows):
        return cosine.cosine_embedding(a, b, YES[rows])

    def angle(a, b, rows):
        return cosine.angle(a, b, GRADES[rows])

    assert halves(embedding) == pytest.approx(whole(embedding), abs=1e-12)

    def rank(a, b, rows):
        return ranking.ranking(a, b)

    assert abs(halves(angle) - whole(angle)) > 1e-2
    assert halves(rank) < whole(rank) - 1e-3
