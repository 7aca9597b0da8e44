"""Multi-task techniques: gradients of every task and rules to combine them, loss weights, PALs."""

import copy
import itertools
import math
from collections import Counter
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.optimize
import torch
from support import DTYPES, tiny_config
from test_ext_efficient import attend, written_out
from torch import nn
from torch.nn import functional as F

from bert import BertModel
from extensions.gradients.cagrad import cagrad
from extensions.gradients.gradvac import GradVac
from extensions.gradients.pcgrad import pcgrad
from extensions.gradients.task_gradients import TaskGradients, cosines, inner_products
from extensions.loss.task_weights import Uncertainty
from extensions.parameters.pals import PALs, TaskPAL
from extensions.parameters.task_layers import encode, split_top_layers
from training.files.errors import InputError

NEEDS_TORCHJD = "torchjd is the oracle: pip install -r requirements-dev.txt"


def rows(tasks: int, seed: int = 0, dtype=torch.float64, size: int = 7, shift: float = 0.0):
    """T gradients, (T, N); a negative shift of one half of them makes conflicts sure."""
    noise = torch.randn(tasks, size, generator=torch.Generator().manual_seed(seed)).double()
    direction = torch.tensor([(-1.0) ** i for i in range(tasks)])[:, None]
    return (noise + shift * direction).to(dtype)


def combined(weigh, gradients: torch.Tensor) -> torch.Tensor:
    """What a rule makes of gradients (T, N), by way of TaskGradients: (N,)."""
    parameter = nn.Parameter(torch.zeros_like(gradients[0]))
    accounts = TaskGradients([parameter])
    for task, gradient in enumerate(gradients):
        parameter.grad = gradient.clone()
        accounts.take(str(task))
    accounts.combine(weigh)
    return parameter.grad


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def products_of(gradients: torch.Tensor) -> torch.Tensor:
    return inner_products([[row] for row in gradients])


# ---------------------------------------------------------------------------------------------
# PCGrad


def pcgrad_by_vectors(gradients: np.ndarray, orders: list[list[int]]) -> np.ndarray:
    """Algorithm 1 of Yu et al., on the vectors themselves."""
    projected = gradients.copy()
    for i, order in enumerate(orders):
        for j in order:
            inner = projected[i] @ gradients[j]
            if j != i and inner < 0:
                projected[i] = projected[i] - inner / (gradients[j] @ gradients[j]) * gradients[j]
    return projected.sum(axis=0)


@DTYPES
@pytest.mark.parametrize("tasks", [2, 3, 5])
def test_pcgrad_is_torchjds_and_the_papers(tasks, dtype):
    aggregation = pytest.importorskip("torchjd.aggregation", reason=NEEDS_TORCHJD)
    tolerance = 2e-6 if dtype == torch.float32 else 1e-13
    changed = 0
    for seed in range(20):
        gradients = rows(tasks, seed, dtype, shift=0.8)
        torch.manual_seed(seed)
        theirs = aggregation.PCGrad()(gradients)
        ours = combined(partial(pcgrad, generator=seeded(seed)), gradients)
        assert ours.dtype == dtype
        torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance)
        draw = seeded(seed)
        orders = [torch.randperm(tasks, generator=draw).tolist() for _ in range(tasks)]
        paper = pcgrad_by_vectors(gradients.double().numpy(), orders)
        np.testing.assert_allclose(ours.double(), paper, rtol=0, atol=tolerance)
        changed += not torch.allclose(ours, gradients.sum(0))
    assert changed >= 15  # most of these have a conflict


@pytest.mark.parametrize("zero", [[], [[0.0, 0.0]]], ids=["two", "a third of 0"])
def test_pcgrad_by_hand(zero):
    """Two gradients at an angle of 135°: each keeps what stands upright on the other."""
    gradients = torch.tensor([[1.0, 0.0], *zero, [-1.0, 1.0]]).double()
    # g_1' = (1, 0) + 1/2 (-1, 1), g_2' = (-1, 1) + 1 (1, 0)
    assert combined(pcgrad, gradients).tolist() == [0.5, 1.5]


@DTYPES
def test_pcgrad_without_conflict_is_the_sum(dtype):
    """The handout's equation has no condition; without one, agreeing tasks would lose a part."""
    gradients = rows(4, dtype=dtype).abs()
    assert pcgrad(products_of(gradients)).tolist() == [1.0] * 4
    torch.testing.assert_close(combined(pcgrad, gradients), gradients.sum(0), rtol=1e-6, atol=0)
    one, other = gradients[:2].double()
    unconditional = one + other - (one @ other) * (other / other.dot(other) + one / one.dot(one))
    ours = combined(pcgrad, gradients[:2]).double()
    assert ours.norm() > unconditional.norm() + 1e-3


def test_pcgrad_draws_an_order_for_every_task():
    """The authors' TensorFlow code never shuffles: it throws the shuffled list away.

    Of three conflicting tasks each has two orders: eight results, equally frequent.
    """
    products = products_of(torch.tensor([[1.0, 0.2, 0], [-1, 0.5, 0.3], [-0.4, -1, 0.8]]).double())
    draw = seeded(0)
    seen = Counter(tuple(pcgrad(products, draw).round(decimals=9).tolist()) for _ in range(800))
    assert len(seen) == 8
    assert scipy.stats.chisquare(list(seen.values())).pvalue > 0.001
    assert torch.equal(pcgrad(products, seeded(4)), pcgrad(products, seeded(4)))


# ---------------------------------------------------------------------------------------------
# GradVac


def gradvac_by_vectors(gradients, targets, beta, orders):
    """One step of Wang et al.'s algorithm on the vectors; changes ``targets``."""
    total = np.zeros(gradients.shape[1])
    for i, order in enumerate(orders):
        own = gradients[i].copy()
        for j in order:
            other, hat = gradients[j], targets[i, j]
            length, size = np.linalg.norm(own), np.linalg.norm(other)
            phi = own @ other / (length * size)
            if phi < hat:
                root, root_hat = math.sqrt(1 - phi**2), math.sqrt(1 - hat**2)
                own = own + length * (hat * root - phi * root_hat) / (size * root_hat) * other
            targets[i, j] = (1 - beta) * hat + beta * phi
        total += own
    return total


@DTYPES
@pytest.mark.parametrize(("tasks", "beta"), [(2, 0.01), (3, 0.01), (3, 0.5), (4, 0.5)])
def test_gradvac_is_torchjds_and_the_papers_over_steps(tasks, beta, dtype):
    aggregation = pytest.importorskip("torchjd.aggregation", reason=NEEDS_TORCHJD)
    tolerance = 2e-6 if dtype == torch.float32 else 1e-10
    theirs = aggregation.GradVac(beta=beta, eps=0.0)
    ours, draw = GradVac(tasks, beta, seeded(9)), seeded(9)
    targets, plain = np.zeros((tasks, tasks)), 0
    for step in range(8):
        gradients = rows(tasks, step, dtype, shift=0.3 if step % 2 else 0.0) + 0.5
        state = ours.generator.get_state()
        result = combined(ours, gradients)
        torch.set_rng_state(state)  # theirs takes the same orders from PyTorch's own generator
        torch.testing.assert_close(result, theirs(gradients), rtol=0, atol=tolerance)
        orders = []
        for i in range(tasks):
            others = [j for j in range(tasks) if j != i]
            orders.append([others[k] for k in torch.randperm(tasks - 1, generator=draw).tolist()])
        paper = gradvac_by_vectors(gradients.double().numpy(), targets, beta, orders)
        np.testing.assert_allclose(result.double(), paper, rtol=0, atol=tolerance)
        np.testing.assert_allclose(ours.targets, targets, rtol=0, atol=tolerance)
        plain += torch.allclose(result, gradients.sum(0))
    assert plain <= 6  # some were corrected
    assert np.abs(targets).max() > 1e-3


def test_gradvac_stays_finite():
    """Gradients of zero, and targets that have come as high as they can."""
    rule = GradVac(2, beta=0.5)
    assert rule(torch.tensor([[0.0, 0.0], [0.0, 2.0]]).double()).tolist() == [1.0, 1.0]
    rule.targets.fill_(1.0)
    assert rule(products_of(rows(2))).isfinite().all()
    with pytest.raises(ValueError, match="3 gradients, but targets for 2 tasks"):
        rule(products_of(rows(3)))
    with pytest.raises(ValueError, match="beta is 1"):
        GradVac(2, beta=1)


# ---------------------------------------------------------------------------------------------
# CAGrad


def relative(ours: torch.Tensor, theirs) -> float:
    theirs = torch.as_tensor(theirs).double()
    return ((ours.double() - theirs).norm() / theirs.norm()).item()


def gain(gradients: np.ndarray, direction: np.ndarray) -> float:
    return (gradients @ direction).min()


@pytest.mark.parametrize(
    ("tasks", "c"), [(2, 0.2), (2, 0.5), (2, 0.9), (3, 0.2), (3, 0.5), (3, 0.9), (5, 0.5)]
)
def test_cagrad_solves_the_problem_itself(tasks, c):
    """The worst task's gain in the ball, by a solver that knows nothing of the dual."""
    for seed in range(3):
        gradients = rows(tasks, seed, shift=0.4, size=6).numpy()
        mean = gradients.mean(axis=0)
        radius = c * np.linalg.norm(mean)
        ours = combined(partial(cagrad, c=c), torch.tensor(gradients)).numpy()
        assert np.linalg.norm(ours - mean) == pytest.approx(radius, rel=1e-9)
        found = scipy.optimize.minimize(  # of (d, t): largest t with g_i · d ≥ t in the ball
            lambda x: -x[-1],
            np.append(mean, gain(gradients, mean)),
            method="SLSQP",
            constraints=[
                {"type": "ineq", "fun": lambda x, g=gradients: g @ x[:-1] - x[-1]},
                {
                    "type": "ineq",
                    "fun": lambda x, m=mean, r=radius: r**2 - ((x[:-1] - m) ** 2).sum(),
                },
            ],
            options={"ftol": 1e-10, "maxiter": 500},
        )
        assert found.success
        assert relative(torch.tensor(ours), found.x[:-1]) < 1e-4
        assert gain(gradients, ours) >= gain(gradients, found.x[:-1]) - 1e-6
        assert gain(gradients, ours) > gain(gradients, mean)


@DTYPES
def test_cagrad_is_torchjds(dtype):
    aggregation = pytest.importorskip("torchjd.aggregation", reason=NEEDS_TORCHJD)
    pytest.importorskip("cvxpy", reason=f"the solver of torchjd's CAGrad: {NEEDS_TORCHJD}")
    for tasks, seed in itertools.product((2, 3, 5), range(3)):
        gradients = rows(tasks, seed, dtype, shift=0.4)
        theirs = aggregation.CAGrad(c=0.4, norm_eps=1e-6)(gradients)
        ours = combined(partial(cagrad, c=0.4), gradients)
        assert relative(ours, theirs) < (1e-3 if dtype == torch.float32 else 1e-4)


def test_cagrad_without_a_radius_is_the_mean_and_has_no_unit():
    gradients = rows(3, shift=0.5)
    torch.testing.assert_close(combined(partial(cagrad, c=0.0), gradients), gradients.mean(0))
    at_one = combined(cagrad, gradients)
    assert not torch.allclose(at_one, gradients.mean(0), rtol=1e-2)
    for unit in (1e-6, 1e5):
        assert relative(combined(cagrad, unit * gradients) / unit, at_one) < 1e-6
    with pytest.raises(ValueError, match="c is -1"):
        cagrad(products_of(gradients), c=-1.0)


def test_cagrad_takes_the_mean_where_no_direction_helps_all():
    gradients = torch.tensor([[1.0, 0.0], [-2.0, 0.0], [0.0, 3.0]]).double()
    torch.testing.assert_close(combined(cagrad, gradients), gradients.mean(0))
    assert combined(cagrad, torch.zeros(2, 3)).tolist() == [0.0] * 3


# ---------------------------------------------------------------------------------------------
# Gradients of every task


class Network(nn.Module):
    """A layer for all tasks, one for tasks b and c, and a head for each; one parameter unused."""

    def __init__(self, dtype=torch.float64):
        super().__init__()
        torch.manual_seed(5)
        self.shared = nn.Linear(4, 6, dtype=dtype)
        self.pairs = nn.Linear(6, 6, dtype=dtype)
        self.heads = nn.ModuleDict({task: nn.Linear(6, 1, dtype=dtype) for task in "abc"})
        self.unused = nn.Parameter(torch.zeros(2, dtype=dtype))
        self.frozen = nn.Parameter(torch.ones(1, dtype=dtype), requires_grad=False)

    def loss(self, task: str, inputs: torch.Tensor) -> torch.Tensor:
        hidden = self.features(inputs)
        if task != "a":
            hidden = self.pairs(hidden).tanh()
        return self.heads[task](hidden).square().mean() - self.heads[task](hidden).mean()

    def features(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.frozen * self.shared(inputs).tanh()


def batches(dtype=torch.float64):
    return {task: rows(8, seed, dtype, size=4) for seed, task in enumerate("abc")}


def grads(network: nn.Module) -> dict[str, torch.Tensor]:
    return {k: p.grad.clone() for k, p in network.named_parameters() if p.grad is not None}


def step(network: nn.Module, weigh, tasks: str = "abc", count: int = 1) -> dict[str, torch.Tensor]:
    """The gradients after a step, each task's batch in ``count`` parts."""
    accounts = TaskGradients(network.parameters())
    for task in tasks:
        inputs = batches(network.shared.weight.dtype)[task]
        for part in inputs.chunk(count):
            (network.loss(task, part) * len(part) / len(inputs)).backward()
        accounts.take(task)
        assert not grads(network)
    accounts.combine(weigh)
    assert not accounts.taken
    return grads(network)


@DTYPES
def test_task_gradients_are_torchjds(dtype):
    """Shared parameters by the rule, all others the plain gradients: mtl_backward's division."""
    torchjd = pytest.importorskip("torchjd.autojac", reason=NEEDS_TORCHJD)
    aggregation = pytest.importorskip("torchjd.aggregation", reason=NEEDS_TORCHJD)
    ours = step(Network(dtype), partial(pcgrad, generator=seeded(2)))
    network, inputs = Network(dtype), batches(dtype)
    together = torch.cat([inputs[task] for task in "abc"])  # their losses need common features
    features = network.features(together)
    losses = []
    for task, part in zip("abc", features.chunk(3), strict=True):
        hidden = part if task == "a" else network.pairs(part).tanh()
        out = network.heads[task](hidden)
        losses.append(out.square().mean() - out.mean())
    torchjd.mtl_backward(losses, features=features)
    torch.manual_seed(2)
    torchjd.jac_to_grad(network.shared.parameters(), aggregation.PCGrad())
    theirs = grads(network)
    assert ours.keys() == theirs.keys()
    assert "unused" not in ours
    for name, grad in theirs.items():
        precision = {"rtol": 1e-4, "atol": 1e-7} if dtype == torch.float32 else {"rtol": 1e-10}
        torch.testing.assert_close(ours[name], grad, **({"atol": 1e-10} | precision))
    plain = step(Network(dtype), lambda products: torch.ones(3))
    assert not torch.allclose(plain["shared.weight"], ours["shared.weight"], rtol=1e-3)


def test_task_only_parameters_get_their_own_tasks_gradient():
    """Whatever the rule gives the task: half of a head's update is not to be lost."""
    result = step(Network(), lambda products: torch.tensor([0.25, 0.5, 0.0]))
    network = Network()
    for task in "abc":
        network.zero_grad()
        network.loss(task, batches()[task]).backward()
        torch.testing.assert_close(
            network.heads[task].weight.grad, result[f"heads.{task}.weight"], rtol=1e-12, atol=0
        )
    network.zero_grad()
    (0.25 * network.loss("a", batches()["a"]) + 0.5 * network.loss("b", batches()["b"])).backward()
    torch.testing.assert_close(network.shared.weight.grad, result["shared.weight"])


@pytest.mark.parametrize(
    "new_rule",
    [
        lambda: partial(pcgrad, generator=seeded(0)),
        lambda: GradVac(3, 0.5, seeded(0)),
        lambda: cagrad,
    ],
    ids=["pcgrad", "gradvac", "cagrad"],
)
def test_two_half_batches_are_one_batch(new_rule):
    whole, halves = step(Network(), new_rule()), step(Network(), new_rule(), count=2)
    for name, grad in whole.items():
        torch.testing.assert_close(halves[name], grad, rtol=1e-8, atol=1e-12)


def test_a_task_may_come_twice_in_a_step():
    network, seen = Network(), []
    accounts = TaskGradients(network.parameters())
    for task in "abba":
        network.loss(task, batches()[task]).backward()
        accounts.take(task)
    table = accounts.combine(lambda products: seen.append(products) or torch.ones(2))
    assert torch.equal(table, seen[0])
    twice = grads(network)
    once = step(Network(), lambda products: torch.ones(2), tasks="ab")
    for name, grad in once.items():
        torch.testing.assert_close(twice[name], 2 * grad, rtol=1e-12, atol=1e-15)


def test_a_step_of_one_task_is_a_plain_step():
    def never(products):
        raise AssertionError("nothing to combine")

    result = step(Network(), never, tasks="b")
    network = Network()
    network.loss("b", batches()["b"]).backward()
    assert result.keys() == grads(network).keys()
    assert all(torch.equal(result[name], grad) for name, grad in grads(network).items())


def test_tasks_that_share_nothing_are_told_so():
    network = Network()
    network.shared.requires_grad_(False)
    with pytest.raises(InputError, match=r"the tasks a, b, c share no parameter .* finetune"):
        step(network, pcgrad)


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
# Weights of the losses


@DTYPES
def test_uncertainty_is_torchjds(dtype):
    """With all tasks as regressions, the only case that it knows."""
    scalarization = pytest.importorskip("torchjd.scalarization", reason=NEEDS_TORCHJD)
    precision = {"rtol": 0, "atol": 1e-6 if dtype == torch.float32 else 1e-12}
    theirs = scalarization.UW(3).to(dtype)
    ours = Uncertainty("abc", regression="abc").to(dtype)
    values = torch.tensor([0.7, 2.0, 0.1], dtype=dtype)
    start = torch.tensor([0.3, -0.5, 0.0], dtype=dtype)
    with torch.no_grad():
        theirs.log_var.copy_(start)
        for parameter, value in zip(ours.parameters(), start, strict=True):
            parameter.copy_(value)
    mine, other = values.clone().requires_grad_(), values.clone().requires_grad_()
    total = sum(ours(task, loss) for task, loss in zip("abc", mine, strict=True))
    expected = theirs(other)
    torch.testing.assert_close(total, expected, **precision)
    total.backward()
    expected.backward()
    torch.testing.assert_close(mine.grad, other.grad, **precision)
    log_variances = torch.stack([parameter.grad for parameter in ours.parameters()])
    torch.testing.assert_close(log_variances, theirs.log_var.grad, **precision)


def test_uncertainty_of_a_cross_entropy_is_the_papers():
    """Equation 10: L / σ² + log σ, where a squared error has L / (2 σ²) + log σ."""
    module = Uncertainty(["sst", "sts"], regression=["sts"]).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(math.log(0.49))  # σ = 0.7
    loss = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    assert module("sst", loss).item() == pytest.approx(1.3 / 0.49 + math.log(0.7), abs=1e-12)
    assert module("sts", loss).item() == pytest.approx(0.65 / 0.49 + math.log(0.7), abs=1e-12)
    assert torch.autograd.gradcheck(lambda value: module("sst", value), loss, eps=1e-6)


def test_uncertainty_is_saved_with_a_model_and_refuses_unknown_tasks():
    module = Uncertainty(["sst", "sts"])
    with torch.no_grad():
        module.log_variances["sts"].fill_(2.0)
    other = Uncertainty(["sst", "sts"])
    other.load_state_dict(module.state_dict())
    assert other.log_variances["sts"].item() == 2.0
    with pytest.raises(ValueError, match="no task 'para'"):
        Uncertainty(["sst"], regression=["para"])


def test_parts_of_a_batch_have_their_share_of_an_uncertain_loss():
    """Its second term too: shares add up to 1."""
    whole, halves = Uncertainty(["sst"]), Uncertainty(["sst"])
    whole("sst", torch.tensor(0.75)).backward()
    for loss in (0.5, 1.0):
        (halves("sst", torch.tensor(loss)) * 0.5).backward()
    assert (
        halves.log_variances["sst"].grad.item() == whole.log_variances["sst"].grad.item() == -0.25
    )


# ---------------------------------------------------------------------------------------------
# PALs


def bert_with_pals(seed: int = 0, dtype=torch.float64, **arguments) -> tuple[BertModel, PALs]:
    torch.manual_seed(seed)
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


@pytest.mark.parametrize("gelu", [False, True])
def test_at_the_start_pals_change_nothing(gelu):
    bert, pals = bert_with_pals(dtype=torch.float32, gelu=gelu)
    plain = bert(*text())
    with pals.use("sts"):
        started = bert(*text())
    for name, value in plain.items():
        assert torch.equal(started[name], value)
    started["pooler_output"].sum().backward()
    assert pals.tasks["sts"].decoder.weight.grad.abs().max() > 0  # yet they learn
    assert all(p.grad is None for p in pals.tasks["sst"].parameters())


@DTYPES
@pytest.mark.parametrize(("heads", "gelu"), [(3, False), (6, True)], ids=["paper", "authors' code"])
def test_pals_follow_their_formula(heads, gelu, dtype):
    bert, pals = bert_with_pals(heads=heads, gelu=gelu, dtype=dtype)
    set_off(pals)
    ids, mask = text()
    real = mask.bool()
    pal = pals.tasks["sts"]

    def extra(number, forward, begun):
        """V^D g(V^E h)."""
        small = F.linear(begun, pal.encoder.weight, pal.encoder.bias)
        small = attend(small, pal.attention[number], heads, mask)
        added = F.linear(small, pal.decoder.weight, pal.decoder.bias)
        return F.gelu(added) if gelu else added

    hidden = written_out(bert, ids, mask, behind_feed_forward=extra)
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
    found = torch.autograd.grad((ours * probe).sum(), learning)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, **({"atol": 1e-10} | precision))
    assert (ours - bert(ids, mask)["last_hidden_state"]).abs().max() > 0.1


def test_pals_have_as_many_parameters_as_the_papers():
    """V^E and V^D once for all layers: 1.8 million a task, 1.13 times BERT-base for eight tasks."""
    config = SimpleNamespace(
        hidden_size=768, attention_probs_dropout_prob=0.1, initializer_range=0.02
    )
    count = sum(p.numel() for p in TaskPAL(config, 12, 204, 12, False).parameters())
    assert count == 1_819_836
    assert round(1 + 8 * count / 109_482_240, 2) == 1.13


def test_each_task_has_its_own_pals():
    bert, pals = bert_with_pals()
    set_off(pals)
    outputs = {}
    for task in ("sst", "sts"):
        with pals.use(task):
            outputs[task] = bert(*text())["pooler_output"]
    outside = bert(*text())["pooler_output"]
    assert (outputs["sst"] - outputs["sts"]).abs().max() > 1e-3
    assert (outside - outputs["sts"]).abs().max() > 1e-3
    outputs["sst"].sum().backward()
    assert all(p.grad is not None for p in pals.tasks["sst"].parameters() if p.requires_grad)
    assert all(p.grad is None for p in pals.tasks["sts"].parameters())
    with pytest.raises(ValueError, match="no PALs for a task 'para'"), pals.use("para"):
        pass


def test_after_an_error_bert_is_as_it_was():
    bert, pals = bert_with_pals()
    set_off(pals)
    plain = bert(*text())["pooler_output"]

    def fail(layer_norm, inputs):
        raise RuntimeError("out of memory")

    # fails between the layer's beginning and its last norm
    handle = bert.bert_layers[0].attention_layer_norm.register_forward_pre_hook(fail)
    with pytest.raises(RuntimeError, match="out of memory"), pals.use("sst"):
        bert(*text())
    handle.remove()
    assert torch.equal(bert(*text())["pooler_output"], plain)


def test_pals_of_a_copied_model_are_its_own():
    model = nn.Module()
    model.bert, model.pals = bert_with_pals()
    set_off(model.pals)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in model.pals.parameters():
            parameter.zero_()
        plain = model.bert(*text())["pooler_output"]
        with model.pals.use("sts"):
            assert torch.equal(model.bert(*text())["pooler_output"], plain)
            assert torch.equal(twin.bert(*text())["pooler_output"], plain)
        with twin.pals.use("sts"):
            assert (twin.bert(*text())["pooler_output"] - plain).abs().max() > 1e-3
    # BERT's own weights keep their names
    assert not any("pals" in name for name in model.bert.state_dict())


def test_pals_beside_layers_of_the_tasks_own():
    torch.manual_seed(0)
    bert = BertModel(tiny_config()).double().eval()
    own = split_top_layers(bert, 1, ["sst", "sts"])
    pals = PALs(bert, ["sst", "sts"], size=12, heads=3).double().eval()
    set_off(pals)
    assert len(pals.tasks["sst"].attention) == 1
    ids, mask = text()
    plain = encode(bert, ids, mask, None, own["sst"])["pooler_output"]
    with pals.use("sst"):
        changed = encode(bert, ids, mask, None, own["sst"])["pooler_output"]
    assert (changed - plain).abs().max() > 1e-3


def test_pals_drop_out_in_training_only():
    bert, pals = bert_with_pals()
    set_off(pals)
    bert.requires_grad_(False)
    with pals.use("sst"):
        assert torch.equal(bert(*text())["pooler_output"], bert(*text())["pooler_output"])
        pals.train()
        one, other = (bert(*text())["pooler_output"] for _ in range(2))
    assert not torch.equal(one, other)
    one.sum().backward()  # beside a frozen BERT they learn
    assert pals.tasks["sst"].encoder.weight.grad.abs().max() > 0


def test_pals_refuse_a_size_that_heads_cannot_share():
    with pytest.raises(InputError, match="size 10 cannot be split into 3 heads"):
        bert_with_pals(size=10)
