"""SMART and the passes that it makes through a model, by hand and beside finite differences."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch
from support import DTYPES
from test_techniques import make_model
from torch import nn

from extensions.loss import divergences, smart
from extensions.loss.smart import Passes
from extensions.model import TechniquesBERT
from training.files.errors import InputError

IDS = torch.tensor([[2, 9, 8, 11, 3], [2, 7, 3, 0, 0], [2, 30, 31, 3, 0]])
REAL = (IDS != 0).numpy()


class Toy(nn.Module):
    """As small as it can be: embeddings E, z = Σ x over the pieces, logits tanh(z) Wᵀ."""

    def __init__(self, dtype=torch.float64):
        super().__init__()
        torch.manual_seed(0)
        self.config = SimpleNamespace(pad_token_id=0)
        self.table = nn.Embedding(40, 4, dtype=dtype)
        self.head = nn.Linear(4, 5, bias=False, dtype=dtype)

    def embed(self, input_ids):
        return self.table(input_ids)

    def forward(self, input_ids):
        x = self.embed(input_ids) * (input_ids != 0)[:, :, None]
        return self.head(x.sum(dim=1).tanh())

    def passes(self) -> Passes:
        return Passes(self, lambda: self(IDS))

    def numpy(self) -> tuple[np.ndarray, np.ndarray]:
        """E[ids] (B, L, D) and W (C, D), as float64."""
        weight = self.head.weight.detach().double().numpy()
        return self.table(IDS).detach().double().numpy(), weight


def begun(dtype=torch.float64) -> tuple[Toy, np.ndarray, np.ndarray, Passes]:
    """A toy, its E[ids] and W, and passes through it."""
    toy = Toy(dtype)
    return toy, *toy.numpy(), toy.passes()


def toy_logits(x, weight):
    return np.tanh((x * REAL[:, :, None]).sum(axis=1)) @ weight.T


def toy_backward(x, weight, by_logits):
    """∂/∂x (B, L, D) and ∂/∂W (C, D) of what has the gradient by_logits (B, C)."""
    hidden = np.tanh((x * REAL[:, :, None]).sum(axis=1))
    by_sum = (by_logits @ weight) * (1 - hidden**2)
    return by_sum[:, None, :] * REAL[:, :, None], by_logits.T @ hidden


def numeric_gradient(function, x: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """Central differences."""
    gradient = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        shift = np.zeros_like(x)
        shift[place] = step
        gradient[place] = (function(x + shift) - function(x - shift)) / (2 * step)
    return gradient


def norms(rows, order=2):
    return np.linalg.norm(rows.reshape(len(rows), -1), ord=order, axis=1)[:, None, None]


def tiny_multitask(folder, **values) -> TechniquesBERT:
    """A small model with weights large enough for the outputs to depend on the inputs."""
    return make_model(folder, **values).train()


MASK = (IDS != 0).long()
IDS_2 = torch.tensor([[2, 12, 3, 0], [2, 13, 14, 3], [2, 15, 16, 3]])
PAIRS = (IDS, MASK, IDS_2, (IDS_2 != 0).long())


# ---------------------------------------------------------------------------------------------
# Passes with something added to the embeddings


def test_a_perturbation_reaches_bert(tiny_model_folder):
    model = tiny_multitask(tiny_model_folder).eval()
    passes = Passes(model.bert, lambda: model.predict_sentiment(IDS, MASK))
    assert torch.equal(passes.clean(), model.predict_sentiment(IDS, MASK))
    delta = 0.1 * torch.randn(3, 5, 32)
    hidden = model.bert.encode(model.bert.embed(IDS) + delta, MASK)
    expected = model.sentiment(model.bert.pooler_dense(hidden[:, 0]).tanh())
    torch.testing.assert_close(passes.perturbed([delta]), expected, rtol=0, atol=1e-6)
    assert torch.equal(passes.real[0][:, :, 7], MASK.float())
    assert "embed" not in vars(model.bert)


@pytest.mark.parametrize(
    ("settings", "shapes"),
    [({"separate_layers": 1}, [(3, 5), (3, 4)]), ({"pair_encoding": "cross"}, [(3, 7)])],
    ids=["bi", "cross"],
)
def test_every_call_of_embed_has_its_own_delta(tiny_model_folder, settings, shapes):
    model = tiny_multitask(tiny_model_folder, **settings)
    passes = Passes(model.bert, lambda: model.predict_paraphrase(*PAIRS))
    clean = passes.clean()
    assert [real.shape[:2] for real in passes.real] == shapes
    none = [torch.zeros_like(real) for real in passes.real]
    assert torch.equal(passes.perturbed(none), clean)
    for i in range(len(shapes)):
        deltas = [torch.zeros_like(real) for real in none]
        deltas[i][1] += 0.3 * torch.randn_like(deltas[i][1])
        changed = (passes.perturbed(deltas) != clean).tolist()
        assert changed == [False, True, False]


def test_passes_share_dropout_and_leave_chance_alone(tiny_model_folder):
    model = tiny_multitask(tiny_model_folder)
    torch.manual_seed(1)
    torch.randint(2**62, ())  # the seed of the noise
    expected = model.predict_sentiment(IDS, MASK), torch.rand(6)
    torch.manual_seed(1)
    passes = Passes(model.bert, lambda: model.predict_sentiment(IDS, MASK))
    outputs = [passes.clean() for _ in range(3)]
    torch.randn(3, generator=passes.generator)
    drawn = [torch.rand(3)]
    outputs.append(passes.clean())
    drawn.append(torch.rand(3))
    assert torch.equal(torch.cat(drawn), expected[1])
    assert all(torch.equal(one, expected[0]) for one in outputs)
    assert not torch.equal(model.predict_sentiment(IDS, MASK), expected[0])


def test_passes_put_embed_back():
    toy = Toy()

    def fails():
        toy(IDS)
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        Passes(toy, fails).clean()
    assert "embed" not in vars(toy)
    with pytest.raises(InputError, match="nothing to perturb"):  # outputs that were remembered
        Passes(toy, lambda: toy.head.weight.sum(dim=1)).clean()


# ---------------------------------------------------------------------------------------------
# SMART


def kl_both_ways(p, q):
    p, q = (scipy.special.softmax(rows, axis=1) for rows in (p, q))
    return (scipy.stats.entropy(p, q, axis=1) + scipy.stats.entropy(q, p, axis=1)).mean()


def kl_gradient(p, q):
    """∂/∂p of the mean over rows of Σ (σ(p) − σ(q)) (log σ(p) − log σ(q)), by hand."""
    share_p, share_q = (scipy.special.softmax(rows, axis=1) for rows in (p, q))
    ratio = np.log(share_p) - np.log(share_q)
    through_share = share_p * (ratio - (share_p * ratio).sum(axis=1, keepdims=True))
    return (through_share + share_p - share_q) / len(p)


def test_a_step_of_the_ascent_by_hand():
    """Each row by its own largest gradient, then back into the ball; a flat place stays."""
    gradient = torch.tensor([[[1.0, -4.0]], [[0.0, 0.0]], [[0.5, 2.0]]])
    delta = torch.tensor([[[0.1, 0.1]], [[0.1, -0.1]], [[0.0, 0.25]]])
    moved = smart.ascend(delta, gradient, 0.2, 0.3)
    expected = torch.tensor([[[0.15, -0.1]], [[0.1, -0.1]], [[0.05, 0.3]]])
    torch.testing.assert_close(moved, expected)


@DTYPES
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_the_ascent_is_algorithm_1(dtype, steps):
    toy, x, weight, passes = begun(dtype)
    outputs = passes.clean()
    replay = torch.Generator().set_state(passes.generator.get_state())
    noise = torch.empty(x.shape, dtype=dtype).normal_(generator=replay).double().numpy()
    (ours,) = smart.adversary(passes, outputs, divergences.symmetric_kl, 0.05, steps)

    clean = toy_logits(x, weight)
    delta = 0.05 * noise * REAL[:, :, None]
    for _ in range(steps):
        by_logits = kl_gradient(toy_logits(x + delta, weight), clean)
        g, _ = toy_backward(x + delta, weight, by_logits)
        delta = np.clip(delta + 5 * g / norms(g, np.inf), -0.05, 0.05)
    tolerance = {"atol": 2e-4 if dtype == torch.float32 else 1e-12}  # small δ: differences cancel
    np.testing.assert_allclose(ours.numpy(), delta, rtol=0, **tolerance)
    assert not ours.requires_grad
    assert all(parameter.grad is None for parameter in toy.parameters())


@DTYPES
def test_smoothness_and_its_gradient(dtype):
    """Beside finite differences in W and E with the δ that was chosen held fixed."""
    toy, x, weight, passes = begun(dtype)
    outputs, draw = passes.clean(), passes.generator.get_state()
    (delta,) = smart.adversary(passes, outputs, divergences.symmetric_kl, 0.1)
    passes.generator.set_state(draw)
    value = smart.smoothness(passes, outputs, divergences.symmetric_kl, 0.1)
    value.backward()
    delta = delta.double().numpy()
    assert np.abs(delta).max() <= 0.1 * (1 + 1e-6)

    def again(x, weight):
        return kl_both_ways(toy_logits(x + delta, weight), toy_logits(x, weight))

    assert value.item() == pytest.approx(again(x, weight), abs=1e-6, rel=1e-5)
    by_weight = numeric_gradient(lambda w: again(x, w), weight)
    np.testing.assert_allclose(toy.head.weight.grad.numpy(), by_weight, rtol=1e-4, atol=1e-6)
    by_x = numeric_gradient(lambda x: again(x, weight), x)
    by_table = np.zeros((40, 4))
    np.add.at(by_table, IDS.numpy(), by_x)
    np.testing.assert_allclose(toy.table.weight.grad.numpy(), by_table, rtol=1e-4, atol=1e-6)
    assert np.abs(by_weight).max() > 1e-3


def test_the_proximal_point_is_a_minimum_at_the_teacher(tiny_model_folder):
    """D and its gradient vanish at θ = θ̃, with dropout; a step away neither does."""
    model = tiny_multitask(tiny_model_folder)
    teacher = smart.MomentumTeacher(model)

    def distance():
        passes = Passes(model.bert, lambda: model.predict_sentiment(IDS, MASK))
        outputs = passes.clean()
        with torch.no_grad(), passes.same_dropout():
            target = teacher.model.predict_sentiment(IDS, MASK)
        return divergences.symmetric_kl(outputs, target)

    value = distance()
    value.backward()
    assert value.item() == 0
    assert all(p.grad is None or not p.grad.any() for p in model.parameters())
    assert not any(p.requires_grad for p in teacher.model.parameters())
    with torch.no_grad():
        model.sentiment.weight.mul_(1.5)
    value = distance()
    value.backward()
    assert value.item() > 1e-3
    assert model.sentiment.weight.grad.abs().max() > 1e-3


def test_the_teacher_follows():
    toy = Toy()
    teacher = smart.MomentumTeacher(toy)
    expected = toy.head.weight.detach().numpy().copy()
    for step in range(20):
        with torch.no_grad():
            toy.head.weight.add_(torch.randn_like(toy.head.weight))
        beta = smart.momentum(step, 100)
        teacher.follow(toy, beta)
        expected = (1 - beta) * toy.head.weight.detach().numpy() + beta * expected
    np.testing.assert_allclose(teacher.model.head.weight.numpy(), expected, rtol=0, atol=1e-12)
    assert [smart.momentum(step, 100) for step in (0, 9, 10, 99)] == [0.99, 0.99, 0.999, 0.999]
