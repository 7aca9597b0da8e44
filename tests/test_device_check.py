"""The comparison of a device with the CPU: planted faults are named, honest devices pass.

No device but the CPU is needed: what a device does differently is put in place within the context
that its passes run in.
"""

import math
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from functools import partial
from types import SimpleNamespace
from unittest.mock import patch

import pytest
import torch
from factories import padded_batch, random_bert, stir, tiny_config
from running import assert_same_tensors, one_line_error
from torch import nn
from torch.nn import functional as F

from bert import BertModel, BertSelfAttention
from datasets import SentenceClassificationDataset
from training.fast import replace_by_kernels
from training.loop import device_check, devices
from training.loop.device_check import fault_of, sample
from training.loop.devices import check_device

PRECISIONS = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}
in_all_precisions = pytest.mark.parametrize("precision", PRECISIONS)


class Classifier(nn.Module):
    """Five classes from BERT's pooled output."""

    def __init__(self, bert: BertModel):
        super().__init__()
        self.bert = bert
        self.head = nn.Linear(bert.config.hidden_size, 5)

    def forward(self, ids, mask):
        return self.head(self.bert(ids, mask)["pooler_output"])


def device(precision: str, difference: Callable = nullcontext) -> Callable:
    """The passes of a device in that precision: a context within which it computes differently."""
    dtype = PRECISIONS[precision]

    @contextmanager
    def within():
        autocast = torch.autocast("cpu", dtype or torch.bfloat16, enabled=dtype is not None)
        with difference(), autocast:
            yield

    return within


def samples() -> dict:
    ids, mask, _ = padded_batch(12, 5)
    return {"forward": [ids, mask]}


def one_after_the_other(self, x):
    """A linear layer whose products are added up in their order, which rounds most."""
    total = self.bias
    for k in range(x.shape[-1]):
        total = total + x[..., k : k + 1] * self.weight[:, k]
    return total


@in_all_precisions
def test_an_honest_device_passes_whatever_the_weights(precision):
    """Autocast rounds within the products, kernels elsewhere; sums have another order."""
    order = partial(patch.object, nn.Linear, "forward", one_after_the_other)
    difference = order if precision == "fp32" else nullcontext
    for seed in range(12):
        torch.manual_seed(seed)
        model = Classifier(BertModel(tiny_config())).eval()
        if seed % 2:
            stir(model)
        if seed % 4 > 1:
            replace_by_kernels(model)
        assert fault_of(model, samples(), device(precision, difference)) is None, seed


def with_attention(change):
    """A device on which attention is another function of scores (B, H, L, L), mask and values."""

    def attention(self, key, query, value, attention_mask):
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.size(-1))
        return change(scores, attention_mask, value).transpose(1, 2).flatten(2)

    return partial(patch.object, BertSelfAttention, "attention", attention)


def without_mask(scores, mask, value):
    return scores.softmax(-1).to(value) @ value


def with_nan(scores, mask, value):
    context = (scores + mask).softmax(-1).to(value) @ value
    return context.index_fill(2, torch.tensor([0]), math.nan)


def without_gradient():
    """The word embedding gets none."""

    def forward(self, ids):
        return F.embedding(ids, self.weight.detach() if self.padding_idx == 0 else self.weight)

    return patch.object(nn.Embedding, "forward", forward)


LAYER = "of bert.bert_layers.0.self_attention"
GRADIENT = "the gradient of bert.word_embedding.weight is off by"


@in_all_precisions
@pytest.mark.parametrize(
    ("difference", "place"),
    [
        (with_attention(without_mask), LAYER),
        (with_attention(with_nan), LAYER),
        (without_gradient, GRADIENT),
    ],
)
def test_a_fault_is_named(difference, place, precision):
    fault = fault_of(Classifier(random_bert()), samples(), device(precision, difference))
    assert fault, "not noticed"
    assert place in fault
    assert "cpu does not compute" in fault


@pytest.fixture
def rows(monkeypatch, tiny_model_folder) -> dict:
    """Two rows of nine tokens, for a run on a CPU that counts as another device."""
    monkeypatch.setattr(devices, "REFERENCE", "another")
    args = SimpleNamespace(model=str(tiny_model_folder))
    texts = [("a b c d e f g", 0, "x")] * 2
    return {"forward": SentenceClassificationDataset(texts, args)}


@pytest.mark.parametrize("trust", [False, True])
def test_the_fault_of_one_process_ends_all_unless_it_is_trusted(monkeypatch, rows, trust):
    """Else the others would wait for it."""
    monkeypatch.setattr(device_check, "fault_of", lambda *_: "cuda is wrong")
    monkeypatch.setattr(device_check, "gather", lambda fault: [None, f"{fault} there"])
    args = SimpleNamespace(precision="fp32", trust_device=trust)
    remedy = "cuda is wrong there; leave out --use_gpu, or train anyway with --trust_device"
    with nullcontext() if trust else one_line_error(remedy):
        check_device(args, Classifier(random_bert()), rows)


def test_weights_gradients_and_random_numbers_stay(rows):
    """Even where a model draws numbers without being asked to."""

    def noisy(scores, mask, value):
        torch.rand(1)
        return (scores + mask).softmax(-1).to(value) @ value

    model = Classifier(random_bert()).train()
    random_state = torch.get_rng_state()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    args = SimpleNamespace(precision="fp32", trust_device=False)
    with with_attention(noisy)():
        check_device(args, model, rows)
    assert torch.equal(torch.get_rng_state(), random_state)
    assert all(p.grad is None for p in model.parameters())
    assert_same_tensors(model.state_dict(), before)


def test_a_batch_without_padding_gets_some(rows):
    """Else a mask that is ignored would not be noticed."""
    _, mask = sample(Classifier(random_bert()).forward, rows["forward"])
    assert mask.sum(dim=1).tolist() == [9, 4]
