"""Multi-task techniques: the gradients of every task, PCGrad, and PALs."""

import numpy as np
import pytest
import torch
from factories import DTYPES, tiny_config
from torch import nn
from torch.nn import functional as F

from bert import BertModel
from extensions.gradients.pcgrad import pcgrad
from extensions.gradients.task_gradients import TaskGradients, cosines, inner_products
from extensions.parameters.pals import PALs, TaskPAL
from training.files.errors import InputError

NEEDS_TORCHJD = "torchjd is the oracle: pip install -r requirements-dev.txt"


def rows(tasks: int, seed: int = 0, dtype=torch.float64, size: int = 7, shift: float = 0.0):
    """T gradients, (T, N); a negative shift of one half of them makes conflicts sure."""
    noise = torch.randn(tasks, size, generator=torch.Generator().manual_seed(seed)).double()
    direction = torch.tensor([(-1.0) ** i for i in range(tasks)])[:, None]
    return (noise + shift * direction).to(dtype)


def combined(rule, gradients: torch.Tensor, seed: int = 0) -> torch.Tensor:
    """What a rule makes of gradients (T, N), by way of TaskGradients: (N,)."""
    model = nn.Module()
    model.parameter = nn.Parameter(torch.zeros_like(gradients[0]))
    accounts = TaskGradients(model)
    for task, gradient in enumerate(gradients):
        model.parameter.grad = gradient.clone()
        accounts.take(str(task))
    accounts.combine(rule, seed)
    return model.parameter.grad


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def products_of(gradients: torch.Tensor) -> torch.Tensor:
    return inner_products([[row] for row in gradients])


# ---------------------------------------------------------------------------------------------
# PCGrad


@DTYPES
@pytest.mark.parametrize("tasks", [2, 3, 5])
def test_pcgrad_is_torchjds(tasks, dtype):
    aggregation = pytest.importorskip("torchjd.aggregation", reason=NEEDS_TORCHJD)
    tolerance = 2e-6 if dtype == torch.float32 else 1e-13
    changed = 0
    for seed in range(20):
        gradients = rows(tasks, seed, dtype, shift=0.8)
        torch.manual_seed(seed)
        theirs = aggregation.PCGrad()(gradients)
        ours = combined(pcgrad, gradients, seed)
        torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance)
        changed += not torch.allclose(ours, gradients.sum(0))
    assert changed >= 15  # most of these have a conflict


@pytest.mark.parametrize("zero", [[], [[0.0, 0.0]]], ids=["two", "a third of 0"])
def test_pcgrad_by_hand(zero):
    """Two gradients at an angle of 135°: each keeps what stands upright on the other."""
    gradients = torch.tensor([[1.0, 0.0], *zero, [-1.0, 1.0]]).double()
    # g_1' = (1, 0) + 1/2 (-1, 1), g_2' = (-1, 1) + 1 (1, 0)
    assert combined(pcgrad, gradients).tolist() == [0.5, 1.5]


# ---------------------------------------------------------------------------------------------
# Gradients of every task


class Network(nn.Module):
    """A layer for all tasks, one for tasks b and c, and a head for each; one parameter unused."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.shared = nn.Linear(4, 6).double()
        self.pairs = nn.Linear(6, 6).double()
        self.heads = nn.ModuleDict({task: nn.Linear(6, 1).double() for task in "abc"})
        self.unused = nn.Parameter(torch.zeros(2))

    def loss(self, task: str) -> torch.Tensor:
        inputs = rows(8, seed="abc".index(task), size=4)
        hidden = self.shared(inputs).tanh()
        if task != "a":
            hidden = self.pairs(hidden).tanh()
        return self.heads[task](hidden).square().mean() - self.heads[task](hidden).mean()


def combine(network: Network, weigh) -> None:
    """Leave in .grad what a rule makes of the gradients of all tasks."""
    accounts = TaskGradients(network)
    for task in "abc":
        network.loss(task).backward()
        accounts.take(task)
        assert all(p.grad is None for p in network.parameters())
    accounts.combine(weigh, 0)


def test_a_rule_weighs_what_all_tasks_share_and_nothing_else():
    """Whatever the rule gives the task: half of a head's update is not to be lost."""
    network = Network()
    combine(network, lambda products, generator: torch.tensor([0.25, 0.5, 0.0]))
    assert network.unused.grad is None
    alone = []
    for task in "abc":
        other = Network()
        other.loss(task).backward()
        torch.testing.assert_close(
            network.heads[task].weight.grad, other.heads[task].weight.grad, rtol=1e-12, atol=0
        )
        alone.append(other)
    a, b, c = (other.shared.weight.grad for other in alone)
    torch.testing.assert_close(network.shared.weight.grad, 0.25 * a + 0.5 * b)
    b, c = (other.pairs.weight.grad for other in alone[1:])
    torch.testing.assert_close(network.pairs.weight.grad, b + c)


@DTYPES
def test_inner_products_and_cosines(dtype):
    gradients = rows(3, dtype=dtype, size=10)
    split = [[row[:4].view(2, 2), row[4:]] for row in gradients]
    products = inner_products(split)
    expected = gradients.double().numpy() @ gradients.double().numpy().T
    tolerance = 1e-6 if dtype == torch.float32 else 1e-12
    np.testing.assert_allclose(products, expected, rtol=tolerance, atol=tolerance)
    assert products.dtype == torch.float64
    lengths = np.linalg.norm(gradients.double().numpy(), axis=1)
    wanted = expected / np.outer(lengths, lengths)
    np.testing.assert_allclose(cosines(products), wanted, rtol=0, atol=tolerance)


# ---------------------------------------------------------------------------------------------
# PALs


def bert_with_pals(dtype=torch.float64, **arguments) -> tuple[BertModel, PALs]:
    torch.manual_seed(0)
    bert = BertModel(tiny_config())
    pals = PALs(bert, ["sst", "sts"], **({"size": 12, "heads": 3} | arguments))
    return bert.to(dtype).eval(), pals.to(dtype).eval()


def set_off(pals: PALs) -> None:
    """Away from the start, where V^D is 0; biases too."""
    draw = seeded(8)
    with torch.no_grad():
        for parameter in pals.parameters():
            noise = torch.randn(parameter.shape, generator=draw, dtype=torch.float64)
            parameter.add_(0.1 * noise)


def text(size: int = 3, length: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(5, 90, (size, length), generator=seeded(1))
    mask = torch.ones(size, length, dtype=torch.int64)
    mask[0, 4:] = 0
    return ids, mask


def test_at_the_start_pals_change_nothing():
    bert, pals = bert_with_pals(dtype=torch.float32)
    plain = bert(*text())["pooler_output"]
    with pals.use("sts"):
        started = bert(*text())["pooler_output"]
    assert torch.equal(started, plain)
    started.sum().backward()
    assert pals.tasks["sts"].decoder.weight.grad.abs().max() > 0  # yet they learn
    assert all(p.grad is None for p in pals.tasks["sst"].parameters())


def attend(x: torch.Tensor, own: nn.Module, heads: int, mask: torch.Tensor) -> torch.Tensor:
    """Multi-head attention by its formula: (B, L, D) and a mask (B, L) → (B, L, D)."""
    q, k, v = (
        F.linear(x, linear.weight, linear.bias).unflatten(-1, (heads, -1)).transpose(1, 2)
        for linear in (own.query, own.key, own.value)
    )  # (B, H, L, W)
    scores = torch.einsum("bhid,bhjd->bhij", q, k) / q.size(-1) ** 0.5
    p = scores.masked_fill(mask[:, None, None, :] == 0, -1e9).softmax(-1)
    return torch.einsum("bhij,bhjd->bihd", p, v).flatten(2)


def by_formula(bert: BertModel, pal: TaskPAL, ids, mask) -> torch.Tensor:
    """BERT's layers in functions, with V^D g(V^E h) before each layer's last LayerNorm."""

    def norm(x, module):
        return F.layer_norm(x, x.shape[-1:], module.weight, module.bias, module.eps)

    h = bert.embed(ids)
    for i, layer in enumerate(bert.bert_layers):
        small = attend(pal.encoder(h), pal.attention[i], pal.attention[i].heads, mask)
        own = layer.self_attention
        a = layer.attention_dense(attend(h, own, own.num_attention_heads, mask))
        a = norm(h + a, layer.attention_layer_norm)
        f = layer.out_dense(F.gelu(layer.interm_dense(a)))
        h = norm(a + f + pal.decoder(small), layer.out_layer_norm)
    return h


@DTYPES
def test_pals_follow_their_formula(dtype):
    bert, pals = bert_with_pals(dtype=dtype)
    set_off(pals)
    ids, mask = text()
    real = mask.bool()
    pal = pals.tasks["sts"]
    hidden = by_formula(bert, pal, ids, mask)
    learning = [*pal.parameters(), *bert.bert_layers.parameters()]
    probe = (
        torch.randn(hidden.shape, generator=seeded(4)).to(dtype) * real[:, :, None] / ids.numel()
    )
    expected = torch.autograd.grad((hidden * probe).sum(), learning)
    with pals.use("sts"):
        ours = bert(ids, mask)["last_hidden_state"]
    value = 1e-6 if dtype == torch.float32 else 1e-13
    torch.testing.assert_close(ours[real], hidden[real], rtol=0, atol=value)
    precision = {"rtol": 1e-4, "atol": 1e-7} if dtype == torch.float32 else {"rtol": 1e-10}
    gradients = torch.autograd.grad((ours * probe).sum(), learning)
    for gradient, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient, other, **({"atol": 1e-10} | precision))
    assert (ours - bert(ids, mask)["last_hidden_state"]).abs().max() > 0.1


def test_what_pals_refuse():
    with pytest.raises(InputError, match="size 10 cannot be split into 3 heads"):
        bert_with_pals(size=10)
