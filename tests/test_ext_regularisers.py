"""SMART, averages, layer-wise rates and heads, one by one."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch
from support import DTYPES
from test_extensions import numeric_gradient
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from transformers import RobertaConfig
from transformers.models.roberta.modeling_roberta import RobertaClassificationHead

from extensions.loss import divergences, smart
from extensions.loss.perturbation import Passes
from extensions.model import TechniquesBERT
from extensions.parameters import heads
from extensions.update.averaging import Average
from extensions.update.layer_decay import parameter_groups
from training.files.errors import InputError

IDS = torch.tensor([[2, 9, 8, 11, 3], [2, 7, 3, 0, 0], [2, 30, 31, 3, 0]])
REAL = (IDS != 0).numpy()


def close(dtype, kind="value") -> dict:
    if kind == "value":
        return {"rtol": 0, "atol": 1e-6 if dtype == torch.float32 else 1e-12}
    if dtype == torch.float32:
        return {"rtol": 1e-4, "atol": 1e-7}
    return {"rtol": 1e-8, "atol": 1e-10}


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


def norms(rows, order=2):
    return np.linalg.norm(rows.reshape(len(rows), -1), ord=order, axis=1)[:, None, None]


def tiny_multitask(folder, **values) -> TechniquesBERT:
    """A small model with weights large enough for the outputs to depend on the inputs."""
    torch.manual_seed(5)
    settings = {"hidden_size": 32, "hidden_dropout_prob": 0.3, "option": "finetune"}
    model = TechniquesBERT(SimpleNamespace(**settings | {"model": str(folder)} | values))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 2:
                parameter.normal_(std=0.15 if "bert" in name else 0.5)
    return model.train()


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
    torch.testing.assert_close(passes.perturbed([delta]), expected, **close(torch.float32))
    assert torch.equal(passes.embeddings[0], model.bert.embed(IDS))
    assert torch.equal(passes.real[0][:, :, 7], MASK.float())
    assert "embed" not in vars(model.bert)


@pytest.mark.parametrize(
    ("settings", "calls"),
    [({}, 2), ({"separate_layers": 1}, 2), ({"pair_encoding": "cross"}, 1)],
    ids=["bi", "own layers", "cross"],
)
def test_every_call_of_embed_has_its_own_delta(tiny_model_folder, settings, calls):
    model = tiny_multitask(tiny_model_folder, **settings)
    passes = Passes(model.bert, lambda: model.predict_paraphrase(*PAIRS))
    clean = passes.clean()
    assert [x.shape[:2] for x in passes.embeddings] == (
        [(3, 5), (3, 4)] if calls == 2 else [(3, 7)]
    )
    none = [torch.zeros_like(x) for x in passes.embeddings]
    assert torch.equal(passes.perturbed(none), clean)
    for i in range(calls):
        deltas = [torch.zeros_like(x) for x in none]
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


def test_passes_put_embed_back(tiny_model_folder):
    toy = Toy()

    def fails():
        toy(IDS)
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        Passes(toy, fails).clean()
    assert "embed" not in vars(toy)
    own = toy.embed = lambda ids: 2 * toy.table(ids)  # as another extension may have left it
    passes = toy.passes()
    passes.clean()
    assert toy.embed is own
    assert torch.equal(passes.embeddings[0], 2 * toy.table(IDS))


def test_remembered_outputs_cannot_be_perturbed():
    toy = Toy()
    with pytest.raises(InputError, match="nothing to perturb"):
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


@DTYPES
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_the_ascent_is_algorithm_1(dtype, steps):
    toy, x, weight, passes = begun(dtype)
    outputs = passes.clean()
    replay = torch.Generator().set_state(passes.generator.get_state())
    noise = torch.empty(x.shape, dtype=dtype).normal_(generator=replay).double().numpy()
    search = {"epsilon": 0.05, "step_size": 0.04, "noise": 0.01, "steps": steps}
    (found,) = smart.adversary(passes, outputs, divergences.symmetric_kl, **search)

    clean = toy_logits(x, weight)
    delta = 0.01 * noise * REAL[:, :, None]
    for _ in range(steps):
        by_logits = kl_gradient(toy_logits(x + delta, weight), clean)
        g, _ = toy_backward(x + delta, weight, by_logits)
        delta = np.clip(delta + 0.04 * g / norms(g, np.inf), -0.05, 0.05)
    tolerance = {"atol": 2e-4 if dtype == torch.float32 else 1e-12}  # small δ: differences cancel
    np.testing.assert_allclose(found.numpy(), delta, rtol=0, **tolerance)
    assert not found.requires_grad
    assert all(parameter.grad is None for parameter in toy.parameters())


@DTYPES
def test_smoothness_and_its_gradient(dtype):
    """Beside finite differences in W and E with the δ that was found held fixed."""
    toy, x, weight, passes = begun(dtype)
    value = smart.smoothness(passes, passes.clean(), divergences.symmetric_kl, epsilon=0.1)
    value.backward()
    delta = passes.deltas[0].double().numpy()
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


def test_released_code_adds_noise_where_the_paper_climbs(tiny_model_folder):
    """Its step in our words: (ν + η g) / (‖ν + η g‖_∞ + ε) for each token, and no projection."""
    model = tiny_multitask(tiny_model_folder).eval()
    passes = Passes(model.bert, lambda: model.predict_sentiment(IDS, MASK))
    outputs = passes.clean()
    noise = (1e-5 * torch.randn(3, 5, 32)).requires_grad_()
    change = divergences.symmetric_kl(passes.perturbed([noise]), outputs.detach())
    (gradient,) = torch.autograd.grad(change, noise)
    climbed = (noise + 1e-3 * gradient).detach()
    released = climbed / (climbed.abs().amax(dim=-1, keepdim=True) + 1e-6)

    search = {"epsilon": 1e-5, "noise": 1e-5, "step_size": 1e-3}
    ours = smart.adversary(passes, outputs, divergences.symmetric_kl, **search)[0]
    assert released.abs().amax(dim=-1).min() > 0.8  # ε is 1e-6 there
    assert ours.abs().max() <= 1.00001e-5
    real = MASK.bool()
    alike = F.cosine_similarity(released[real].flatten(), noise[real].flatten(), dim=0)
    assert alike > 0.95

    size = ours.abs().max() / released.abs().max()
    uphill = divergences.symmetric_kl(passes.perturbed([1e4 * ours]), outputs)
    random = divergences.symmetric_kl(passes.perturbed([1e4 * size * released]), outputs)
    assert uphill > 3 * random


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


def test_two_micro_batches_are_the_batch(tiny_model_folder):
    """With δ given: the search would draw other noise for other rows."""
    model, labels = tiny_multitask(tiny_model_folder).eval(), torch.tensor([3, 0, 1])

    def gradients(parts: list[slice]) -> list[torch.Tensor]:
        model.zero_grad()
        for rows in parts:
            passes = Passes(
                model.bert, lambda rows=rows: model.predict_sentiment(IDS[rows], MASK[rows])
            )
            outputs = passes.clean()
            deltas = [0.1 * x.detach().sign() for x in passes.embeddings]
            loss = F.cross_entropy(outputs, labels[rows])
            loss = loss + 3 * divergences.symmetric_kl(passes.perturbed(deltas), outputs)
            (loss * len(labels[rows]) / len(labels)).backward()
        return [p.grad.clone() for p in model.parameters() if p.grad is not None]

    whole = gradients([slice(None)])
    for grad, other in zip(whole, gradients([slice(0, 2), slice(2, 3)]), strict=True):
        torch.testing.assert_close(grad, other, rtol=1e-4, atol=1e-6)


def test_the_ascent_at_a_flat_place():
    assert not smart.ascend(torch.zeros(2, 3, 4), torch.zeros(2, 3, 4), 1.0, 1.0).any()


@DTYPES
def test_the_teacher_follows(dtype):
    toy = Toy(dtype)
    teacher = smart.MomentumTeacher(toy)
    expected = toy.head.weight.detach().double().numpy().copy()
    for step in range(20):
        with torch.no_grad():
            toy.head.weight.add_(torch.randn_like(toy.head.weight))
        beta = smart.momentum(step, 100)
        teacher.follow(toy, beta)
        expected = (1 - beta) * toy.head.weight.detach().double().numpy() + beta * expected
    found = teacher.model.head.weight
    np.testing.assert_allclose(found.numpy(), expected, **close(dtype))
    teacher.follow(toy, 0.0)
    assert torch.equal(found, toy.head.weight)
    assert [smart.momentum(step, 100) for step in (0, 9, 10, 99)] == [0.99, 0.99, 0.999, 0.999]


# ---------------------------------------------------------------------------------------------
# Averages


def walk(model: nn.Module, steps: int):
    """Random steps of a model's weights."""
    torch.manual_seed(9)
    for _ in range(steps):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter))
        yield


@DTYPES
@pytest.mark.parametrize("decay", [0.9, 0.999, 0.0, None], ids=["ema", "slow", "none", "swa"])
def test_averages_beside_torch(dtype, decay):
    toy = Toy(dtype)
    average = Average(toy, decay)
    rule = {} if decay is None else {"multi_avg_fn": get_ema_multi_avg_fn(decay)}
    theirs = AveragedModel(toy, **rule)
    for _ in walk(toy, 20):
        average.update(toy)
        theirs.update_parameters(toy)
        tolerance = 2e-6 if dtype == torch.float32 else 1e-14
        for name, parameter in theirs.module.named_parameters():
            torch.testing.assert_close(average.values[name], parameter, rtol=0, atol=tolerance)
            assert (parameter - dict(toy.named_parameters())[name]).abs().max() > 0.1 or (
                average.count == 1 or decay == 0.0
            )


def test_ema_warms_up():
    toy = Toy()
    average = Average(toy, 0.3, warm_up=True)
    expected = None
    for n, _ in enumerate(walk(toy, 12)):
        average.update(toy)
        now = toy.head.weight.detach().numpy()
        d = min(0.3, (1 + n) / (10 + n))
        expected = now.copy() if n == 0 else d * expected + (1 - d) * now
    np.testing.assert_allclose(average.values["head.weight"], expected, atol=1e-13)


def test_the_average_goes_in_and_comes_out(tiny_model_folder, tmp_path):
    model = tiny_multitask(tiny_model_folder).eval()
    model.bert.requires_grad_(False)
    average = Average(model, 0.5)
    assert set(average.values) == {n for n, _ in model.named_parameters() if "bert" not in n}
    for _ in walk(nn.ModuleList([model.sentiment, model.paraphrase]), 3):
        average.update(model)
    own = {name: value.clone() for name, value in model.state_dict().items()}
    with average.inside(model):
        inside = model.predict_sentiment(IDS, MASK)
        assert torch.equal(model.sentiment.weight, average.values["sentiment.weight"])
    with pytest.raises(ZeroDivisionError), average.inside(model):
        1 / 0  # noqa: B018
    assert all(torch.equal(value, own[name]) for name, value in model.state_dict().items())
    assert not torch.allclose(inside, model.predict_sentiment(IDS, MASK))

    torch.save(average.state_dict(), tmp_path / "average.pt")
    resumed = Average(model, 0.5)
    resumed.load_state_dict(torch.load(tmp_path / "average.pt", weights_only=True))
    for one in (average, resumed):
        one.update(model)
    assert resumed.count == average.count == 4
    assert all(torch.equal(average.values[name], resumed.values[name]) for name in average.values)
    with pytest.raises(ValueError, match="of another model"):
        Average(Toy(), 0.5).load_state_dict(average.state_dict())
    with pytest.raises(ValueError, match="decay is 1"):
        Average(model, 1.0)


# ---------------------------------------------------------------------------------------------
# Rates by layer, heads


def test_rates_by_layer(tiny_model_folder):
    """The table by hand: one shared layer, one of each task's own, embeddings below."""
    model = tiny_multitask(tiny_model_folder, separate_layers=1)
    groups = parameter_groups(model, lr=0.01, decay=0.5)
    rates = {id(p): group["lr"] for group in groups for p in group["params"]}
    names = dict(model.named_parameters())
    assert len(rates) == sum(len(group["params"]) for group in groups) == len(names)
    for name, parameter in names.items():
        if "embed" in name:
            expected = 0.0025
        elif name.startswith("bert.bert_layers.0."):
            expected = 0.005
        else:
            assert name.startswith(("bert.pooler_dense.", "task_layers.")) or "bert" not in name
            expected = 0.01
        assert rates[id(parameter)] == expected, name
    assert sum("embed" in name for name in names) == 5
    assert {group["lr"] for group in groups} == {0.0025, 0.005, 0.01}
    assert all(group["lr"] == 0.01 * group["scale"] for group in groups)


def test_rates_of_a_frozen_bert(tiny_model_folder):
    model = tiny_multitask(tiny_model_folder, option="pretrain")
    (group,) = parameter_groups(model, 0.01, 0.5)
    assert len(group["params"]) == 6
    assert group["lr"] == 0.01
    for decay in (0.0, 1.1):
        with pytest.raises(ValueError, match="must be above 0 and at most 1"):
            parameter_groups(model, 0.01, decay)


@DTYPES
def test_a_head_of_two_layers_is_robertas(dtype):
    theirs = RobertaClassificationHead(RobertaConfig(hidden_size=12, num_labels=5)).to(dtype).eval()
    ours = heads.make_head(12, 5, layers=2).to(dtype).eval()
    ours.load_state_dict(dict(zip(ours.state_dict(), theirs.state_dict().values(), strict=True)))
    x = torch.randn(4, 3, 12, dtype=dtype, requires_grad=True)
    mine = x.detach()[:, 0].clone().requires_grad_()
    upstream = torch.randn(4, 5, dtype=dtype)
    expected, found = theirs(x), ours(mine)
    torch.testing.assert_close(found, expected, **close(dtype))
    expected.backward(upstream)
    found.backward(upstream)
    torch.testing.assert_close(mine.grad, x.grad[:, 0], **close(dtype, "gradient"))


def test_heads_of_one_and_three_layers():
    one = heads.make_head(6, 2)
    assert type(one) is nn.Linear
    assert list(one.state_dict()) == ["weight", "bias"]
    three = heads.make_head(6, 2, layers=3, hidden=4, dropout=0.0)
    x = torch.randn(3, 6)
    w = [p.detach().numpy() for p in three.parameters()]
    hidden = np.tanh(np.tanh(x.numpy() @ w[0].T + w[1]) @ w[2].T + w[3])
    np.testing.assert_allclose(three(x).detach().numpy(), hidden @ w[4].T + w[5], atol=1e-6)
    assert sum(p.numel() for p in three.parameters()) == 6 * 4 + 4 + 4 * 4 + 4 + 4 * 2 + 2
    assert [m.p for m in heads.make_head(6, 2, 3).modules() if isinstance(m, nn.Dropout)] == [
        0.1
    ] * 2
