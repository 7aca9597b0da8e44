"""Losses of techniques: sentence-transformers, torch and printed formulas as oracles; SMART."""

from collections import Counter
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from factories import DTYPES
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from extensions.loss import cosine, distillation, divergences, ranking, smart
from extensions.loss.r_drop import r_drop
from extensions.loss.simcse import simcse
from extensions.loss.smart import Passes
from extensions.text.no_duplicates import NoDuplicates

CHANCE = np.random.default_rng(8)
U, V, W = CHANCE.normal(size=(3, 6, 32))  # (B, D) each
V = 0.2 * U + V  # partners are a little alike, so that there is something left to learn
LOGITS_1, LOGITS_2 = CHANCE.normal(size=(2, 6, 5)) * 2
TEACHERS = CHANCE.normal(size=(3, 6, 5)) * 2
SCORES_1, SCORES_2 = CHANCE.uniform(0, 5, size=(2, 6))
GRADES = torch.tensor([0.0, 5.0, 2.6, 2.6, 1.25, 3.8])
CLASSES = torch.tensor([0, 1, 0, 2, 1, 0])


def theirs(name: str, labels: Tensor | None = None, **options):
    """A loss of sentence-transformers as a function of vectors."""

    def loss(*vectors: Tensor) -> Tensor:
        module = pytest.importorskip("sentence_transformers.sentence_transformer.losses")
        made = getattr(module, name)(model=None, **options)
        return made.compute_loss_from_embeddings(list(vectors), labels)

    return loss


RANKING = "MultipleNegativesRankingLoss"
SYMMETRIC = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}
OUR_RANKING = partial(ranking.ranking, scale=3.0)
OUR_SYMMETRIC = partial(ranking.ranking, scale=3.0, symmetric=True)


def both_directions(first: Tensor, second: Tensor) -> Tensor:
    """The same from torch's kl_div, with gradients through both of its arguments."""
    p, q = first.log_softmax(dim=-1), second.log_softmax(dim=-1)
    there = F.kl_div(q, p, reduction="batchmean", log_target=True)
    return there + F.kl_div(p, q, reduction="batchmean", log_target=True)


def yes_or_no(logits: Tensor) -> Tensor:
    return torch.stack([torch.zeros_like(logits), logits], dim=-1)  # (…, B, 2)


def r_drop_as_printed(first: Tensor, second: Tensor) -> Tensor:
    p, q = first.softmax(-1), second.softmax(-1)
    nll = -sum(p[i, CLASSES[i]].log() + q[i, CLASSES[i]].log() for i in range(6))
    kl = sum((p[i] * (p[i] / q[i]).log() + q[i] * (q[i] / p[i]).log()).sum() for i in range(6))
    return (nll + 0.7 * kl / 2) / 6


def our_r_drop(first: Tensor, second: Tensor) -> Tensor:
    outputs = torch.cat([first, second])
    return r_drop(F.cross_entropy, divergences.symmetric_kl, outputs, CLASSES, alpha=0.7)


def soft_as_printed(student: Tensor, teachers: Tensor) -> Tensor:
    """T² Σ p (log p − log q), p the mean of the members' probabilities; T is 2."""
    p = (teachers / 2).softmax(dim=-1).mean(dim=0)
    return 4 * (p * (p.log() - (student / 2).softmax(dim=-1).log())).sum()


LOSSES = {  # ours, the oracle, and their arguments
    "ranking, hard": (OUR_RANKING, theirs(RANKING, scale=3.0), (U, V, W)),
    "symmetric": (OUR_SYMMETRIC, theirs(RANKING, scale=3.0, **SYMMETRIC), (U, V)),
    "symmetric, hard": (OUR_SYMMETRIC, theirs(RANKING, scale=3.0, **SYMMETRIC), (U, V, W)),
    "cosent": (
        lambda u, v: cosine.cosent(5 * cosine.cosine(u, v), GRADES),
        theirs("CoSENTLoss", GRADES, scale=20.0),
        (U, V),
    ),
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
    "soft": (distillation.soft_loss, soft_as_printed, (LOGITS_1, TEACHERS)),
    "soft, yes or no": (
        distillation.soft_loss,
        lambda student, teachers: soft_as_printed(yes_or_no(student), yes_or_no(teachers)),
        (LOGITS_1[:, 0], TEACHERS[..., 0]),
    ),
    "scores": (
        distillation.score_loss,
        lambda student, teachers: (student - teachers.mean(0)).square().sum() / 25,
        (SCORES_1, TEACHERS[..., 0]),
    ),
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
    torch.testing.assert_close(value, expected, rtol=2e-6, atol=1e-12 if fine else 1e-6)
    assert min(gradient.abs().max() for gradient in wanted) > 1e-3
    torch.testing.assert_close(gradients, wanted, rtol=1e-4, atol=1e-10 if fine else 2e-7)


@pytest.mark.parametrize("name", ["symmetric", "cosent", "symmetric kl", "soft"])
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


PAIRS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=40)


@settings(deadline=None)
@given(PAIRS, st.integers(1, 7), st.integers(0, 5))
def test_every_row_once_and_no_sentence_twice(pairs, size, epoch):
    sampler = NoDuplicates([3 + i * 7 % 20 for i in range(len(pairs))], size, 0, pairs)
    sampler.set_epoch(epoch)
    batches = list(sampler)
    assert sorted(row for batch in batches for row in batch) == list(range(len(pairs)))
    assert len(sampler) == len(batches)
    for batch in batches:
        assert 1 <= len(batch) <= size
        met = Counter(sentence for row in batch for sentence in set(pairs[row]))
        assert set(met.values()) == {1}
    assert list(sampler) == batches  # an epoch's order follows from its number alone


IDS = torch.tensor([[2, 9, 8, 11, 3], [2, 7, 3, 0, 0], [2, 30, 31, 3, 0]])
MASK = (IDS != 0).long()


class Toy(nn.Module):
    """As small as it can be: embeddings E, z = Σ x over the tokens, logits tanh(z) Wᵀ."""

    def __init__(self, dtype=torch.float64):
        super().__init__()
        torch.manual_seed(0)
        self.config = SimpleNamespace(pad_token_id=0)
        self.table = nn.Embedding(40, 4, dtype=dtype)
        self.head = nn.Linear(4, 5, bias=False, dtype=dtype)
        self.dropout = nn.Dropout(0.0)

    def embed(self, input_ids):
        return self.table(input_ids)

    def forward(self, input_ids):
        return self.logits(self.embed(input_ids))

    def logits(self, x):
        """(B, L, D) → (B, C), without padding."""
        return self.head(self.dropout(x * MASK[:, :, None]).sum(dim=1).tanh())


def test_passes_share_dropout_and_leave_chance_alone():
    toy = Toy()
    toy.dropout.p = 0.3
    torch.manual_seed(1)
    torch.randint(2**62, ())  # the seed of the noise
    expected = toy(IDS), torch.rand(6)
    torch.manual_seed(1)
    passes = Passes(toy, lambda: toy(IDS))
    outputs, drawn = [passes.clean()], []
    for _ in range(2):
        torch.randn(3, generator=passes.generator)
        drawn.append(torch.rand(3))
        outputs.append(passes.perturbed([torch.zeros(3, 5, 4)]))
    assert torch.equal(torch.cat(drawn), expected[1])
    assert all(torch.equal(output, expected[0]) for output in outputs)
    assert not torch.equal(toy(IDS), expected[0])


def test_a_step_of_the_ascent_by_hand():
    """Each row by its own largest gradient, then back into the ball; a flat place stays."""
    gradient = torch.tensor([[[1.0, -4.0]], [[0.0, 0.0]], [[0.5, 2.0]]])
    delta = torch.tensor([[[0.1, 0.1]], [[0.1, -0.1]], [[0.0, 0.25]]])
    moved = smart.ascend(delta, gradient, 0.2, 0.3)
    expected = torch.tensor([[[0.15, -0.1]], [[0.1, -0.1]], [[0.05, 0.3]]])
    torch.testing.assert_close(moved, expected)


@DTYPES
def test_the_ascent_is_algorithm_1_and_smoothness_its_divergence(dtype):
    """With the δ that was chosen held fixed, whose gradient does not reach the parameters."""
    toy = Toy(dtype)
    passes = Passes(toy, lambda: toy(IDS))
    outputs, draw = passes.clean(), passes.generator.get_state()
    value = smart.smoothness(passes, outputs, divergences.symmetric_kl, 0.05)
    gradients = torch.autograd.grad(value, [toy.table.weight, toy.head.weight])

    x = toy.table(IDS)
    noise = torch.empty(x.shape, dtype=dtype).normal_(generator=torch.Generator().set_state(draw))
    delta = (0.05 * noise * MASK[:, :, None]).requires_grad_()
    change = both_directions(toy.logits(x.detach() + delta), toy.logits(x).detach())
    (g,) = torch.autograd.grad(change, delta)
    largest = g.flatten(1).abs().max(dim=1).values[:, None, None]
    delta = (delta.detach() + 5 * g / largest).clamp(-0.05, 0.05)
    expected = both_directions(toy.logits(x + delta), toy.logits(x))
    wanted = torch.autograd.grad(expected, [toy.table.weight, toy.head.weight])
    # of a small δ differences cancel
    near = {"rtol": 1e-2, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-12}
    torch.testing.assert_close((value, *gradients), (expected, *wanted), **near)
    assert min(gradient.abs().max() for gradient in wanted) > 1e-4
