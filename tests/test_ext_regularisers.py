"""SMART and the passes that it makes through a model, by its formulas on a very small model."""

from types import SimpleNamespace

import pytest
import torch
from factories import DTYPES
from test_ext_similarity import both_directions
from torch import nn

from extensions.loss import smart
from extensions.loss.divergences import symmetric_kl
from extensions.loss.smart import Passes
from extensions.model import TechniquesBERT

IDS = torch.tensor([[2, 9, 8, 11, 3], [2, 7, 3, 0, 0], [2, 30, 31, 3, 0]])
MASK = (IDS != 0).long()
IDS_2 = torch.tensor([[2, 12, 3, 0], [2, 13, 14, 3], [2, 15, 16, 3]])
PAIRS = (IDS, MASK, IDS_2, (IDS_2 != 0).long())


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
        return self.logits(self.embed(input_ids))

    def logits(self, x):
        """(B, L, D) → (B, C), without padding."""
        return self.head((x * MASK[:, :, None]).sum(dim=1).tanh())


def tiny_multitask(folder, **settings) -> TechniquesBERT:
    """With random weights, in training mode, with dropout."""
    config = {"option": "finetune", "hidden_dropout_prob": 0.3, "hidden_size": 32}
    model = TechniquesBERT(SimpleNamespace(**config, model=str(folder), **settings))
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.15)
    return model.train()


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
    assert all(torch.equal(output, expected[0]) for output in outputs)
    assert not torch.equal(model.predict_sentiment(IDS, MASK), expected[0])


# ---------------------------------------------------------------------------------------------
# SMART


def test_a_step_of_the_ascent_by_hand():
    """Each row by its own largest gradient, then back into the ball; a flat place stays."""
    gradient = torch.tensor([[[1.0, -4.0]], [[0.0, 0.0]], [[0.5, 2.0]]])
    delta = torch.tensor([[[0.1, 0.1]], [[0.1, -0.1]], [[0.0, 0.25]]])
    moved = smart.ascend(delta, gradient, 0.2, 0.3)
    expected = torch.tensor([[[0.15, -0.1]], [[0.1, -0.1]], [[0.05, 0.3]]])
    torch.testing.assert_close(moved, expected)


@DTYPES
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_the_ascent_is_algorithm_1_and_smoothness_its_divergence(dtype, steps):
    """With the δ that was chosen held fixed, whose gradient is none of the parameters'."""
    toy = Toy(dtype)
    passes = Passes(toy, lambda: toy(IDS))
    outputs, draw = passes.clean(), passes.generator.get_state()
    value = smart.smoothness(passes, outputs, symmetric_kl, 0.05, steps)
    gradients = torch.autograd.grad(value, [toy.table.weight, toy.head.weight])

    replay = torch.Generator().set_state(draw)
    x = toy.table(IDS)
    clean = toy.logits(x).detach()
    noise = torch.empty(x.shape, dtype=dtype).normal_(generator=replay)
    delta = 0.05 * noise * MASK[:, :, None]
    for _ in range(steps):
        delta.requires_grad_()
        (g,) = torch.autograd.grad(both_directions(toy.logits(x.detach() + delta), clean), delta)
        largest = g.flatten(1).abs().max(dim=1).values[:, None, None]
        delta = (delta.detach() + 5 * g / largest).clamp(-0.05, 0.05)
    expected = both_directions(toy.logits(x + delta), toy.logits(x))
    wanted = torch.autograd.grad(expected, [toy.table.weight, toy.head.weight])
    # of a small δ differences cancel
    near = {"rtol": 1e-2, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-12}
    torch.testing.assert_close(value, expected, **near)
    for gradient, other in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(gradient, other, **near)
        assert other.abs().max() > 1e-4
