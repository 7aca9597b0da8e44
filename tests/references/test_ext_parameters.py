"""Which parameters learn from what: PCGrad as in torchjd, LoRA as in peft, PALs by formula."""

import peft
import pytest
import torch
import transformers
from factories import DTYPES, padded_batch, random_bert, stir, tiny_config
from running import one_line_error
from torch import nn
from torch.nn import functional as F

from bert import BertModel
from extensions.gradients.pcgrad import pcgrad
from extensions.gradients.task_gradients import TaskGradients, inner_products
from extensions.parameters.lora import add_lora
from extensions.parameters.pals import PALs, TaskPAL
from utils import get_extended_attention_mask

pytestmark = pytest.mark.filterwarnings(  # transformers, from within peft
    "ignore:`is_gradient_checkpointing` is deprecated:FutureWarning"
)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@DTYPES
@pytest.mark.parametrize("tasks", [2, 3, 5])
def test_pcgrad_is_torchjds(tasks, dtype):
    aggregation = pytest.importorskip("torchjd.aggregation")
    tolerance = 2e-6 if dtype == torch.float32 else 1e-13
    direction = torch.tensor([(-1.0) ** i for i in range(tasks)])[:, None]
    changed = 0
    for seed in range(20):
        gradients = torch.randn(tasks, 7, generator=seeded(seed)).double() + 0.8 * direction
        gradients = gradients.to(dtype)  # (T, N), of which most have a conflict
        torch.manual_seed(seed)
        theirs = aggregation.PCGrad()(gradients)
        weights = pcgrad(inner_products([[row] for row in gradients]), seeded(seed))
        torch.testing.assert_close(weights.to(dtype) @ gradients, theirs, rtol=0, atol=tolerance)
        changed += not torch.allclose(theirs, gradients.sum(0))
    assert changed >= 15


def test_a_rule_weighs_what_all_tasks_share_and_nothing_else():
    """Whatever the rule gives the task: half of a head's update is not to be lost."""
    reached = {"shared": "abc", "of two": "bc", "a": "a", "b": "b", "c": "c", "unused": ""}
    model = nn.ParameterDict({name: nn.Parameter(torch.zeros(3)) for name in reached})
    given = {(name, task): torch.randn(3) for name in reached for task in reached[name]}
    accounts, seen = TaskGradients(model), []
    for task in "abc":
        for name, parameter in model.items():
            parameter.grad = given.get((name, task))
        accounts.take(task)
        assert all(parameter.grad is None for parameter in model.values())

    def rule(products, generator):
        seen.append((products, generator.initial_seed()))
        return torch.tensor([0.25, 0.5, 0.0])

    products = accounts.combine(rule, 7)
    shared = torch.stack([given["shared", task] for task in "abc"])
    torch.testing.assert_close(products.float(), shared @ shared.T)
    assert seen == [(products, 7)]
    torch.testing.assert_close(model["shared"].grad, 0.25 * shared[0] + 0.5 * shared[1])
    torch.testing.assert_close(model["of two"].grad, given["of two", "b"] + given["of two", "c"])
    assert all(torch.equal(model[task].grad, given[task, task]) for task in "abc")
    assert model["unused"].grad is None


IDS, MASK, _ = padded_batch(7, 4, 6, vocabulary=90)
REAL = MASK.bool()


def assert_close_gradients(found, wanted, dtype) -> None:
    """Within what is rounded in that type."""
    is_fine = dtype == torch.float64
    near = {"rtol": 1e-10, "atol": 1e-10} if is_fine else {"rtol": 1e-4, "atol": 1e-6}
    torch.testing.assert_close(list(found), list(wanted), **near)


@DTYPES
def test_lora_is_that_of_peft(dtype):
    """With the same random updates: values and their gradients."""
    ours = random_bert(dtype)
    config = transformers.BertConfig(**vars(ours.config), attn_implementation="eager")
    theirs = transformers.BertModel(config).to(dtype)
    theirs.load_state_dict(ours.to_hf_weights(), strict=True)
    config = peft.LoraConfig(r=3, lora_alpha=5, target_modules=["query", "value"])
    theirs = peft.get_peft_model(theirs, config).eval()
    without = ours(IDS, MASK)["last_hidden_state"]
    add_lora(ours, rank=3, alpha=5)
    pairs = []
    for layer, other in zip(ours.bert_layers, theirs.model.encoder.layer, strict=True):
        for name in ("query", "value"):
            mine, twin = getattr(layer.self_attention, name), getattr(other.attention.self, name)
            pairs.append((mine.lora_a, twin.lora_A.default.weight))
            pairs.append((mine.lora_b, twin.lora_B.default.weight))
    with torch.no_grad():
        for parameter, twin in pairs:
            parameter.add_(0.3 * torch.randn_like(parameter))
            twin.copy_(parameter)
    mine = ours(IDS, MASK)["last_hidden_state"][REAL]
    other = theirs(IDS, attention_mask=MASK).last_hidden_state[REAL]
    assert (mine - without[REAL]).abs().max() > 0.03
    atol = 5e-6 if dtype == torch.float32 else 5e-13
    torch.testing.assert_close(mine, other, rtol=0, atol=atol)
    probe = torch.randn(mine.shape, generator=seeded(4)).to(dtype) / 21
    (mine * probe).sum().backward()
    (other * probe).sum().backward()
    found, wanted = ([parameter.grad for parameter in side] for side in zip(*pairs, strict=True))
    assert_close_gradients(found, wanted, dtype)
    assert min(gradient.abs().max() for gradient in wanted) > 1e-6


def test_at_the_start_lora_changes_nothing_and_only_the_update_learns():
    model = random_bert()
    expected, names = model(IDS, MASK)["last_hidden_state"], set(model.state_dict())
    add_lora(model)
    assert torch.equal(model(IDS, MASK)["last_hidden_state"], expected)
    learn = {name for name, p in model.named_parameters() if p.requires_grad}
    assert learn == set(model.state_dict()) - names
    with one_line_error("rank 33: a matrix (32, 32) has no such rank"):
        add_lora(random_bert(), rank=33)


def by_formula(bert: BertModel, pal: TaskPAL) -> torch.Tensor:
    """BERT's layers with V^D g(V^E h), g printed out, before each layer's last LayerNorm."""
    h, additive = bert.embed(IDS), get_extended_attention_mask(MASK, bert.dtype)
    for layer, g in zip(bert.bert_layers, pal.attention, strict=True):
        query, key, value = (
            linear(pal.encoder(h)).unflatten(-1, (3, 4)).transpose(1, 2)
            for linear in (g.query, g.key, g.value)
        )  # (B, H, L, W)
        p = (torch.einsum("bhid,bhjd->bhij", query, key) / 2 + additive).softmax(-1)
        small = torch.einsum("bhij,bhjd->bihd", p, value).flatten(2)  # (B, L, S)
        attended = layer.attention_dense(layer.self_attention(h, additive))
        a = layer.attention_layer_norm(h + attended)
        f = layer.out_dense(F.gelu(layer.interm_dense(a)))
        h = layer.out_layer_norm(a + f + pal.decoder(small))
    return h


@DTYPES
def test_pals_follow_their_formula_and_change_nothing_at_the_start(dtype):
    torch.manual_seed(0)
    bert = BertModel(tiny_config()).to(dtype).eval()
    pals = PALs(bert, ["sst", "sts"], size=12, heads=3).to(dtype).eval()
    plain = bert(IDS, MASK)["last_hidden_state"]
    with pals.use("sts"):
        assert torch.equal(bert(IDS, MASK)["last_hidden_state"], plain)
    pal = stir(pals).tasks["sts"]
    hidden = by_formula(bert, pal)
    learning = [*pal.parameters(), *bert.bert_layers.parameters()]
    probe = torch.randn(hidden.shape, generator=seeded(4)).to(dtype) * REAL[:, :, None] / 21
    expected = torch.autograd.grad((hidden * probe).sum(), learning)
    with pals.use("sts"):
        ours = bert(IDS, MASK)["last_hidden_state"]
    atol = 2e-6 if dtype == torch.float32 else 1e-13
    torch.testing.assert_close(ours[REAL], hidden[REAL], rtol=0, atol=atol)
    gradients = torch.autograd.grad((ours * probe).sum(), learning)
    assert_close_gradients(gradients, expected, dtype)
    assert (ours - plain).abs().max() > 0.1
