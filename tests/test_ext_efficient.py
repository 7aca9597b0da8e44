"""LoRA and its lesson, and distillation; each against its oracle."""

import peft
import pytest
import torch
import transformers
from factories import DTYPES, random_bert

from bert import BertModel
from extensions.loss import distillation
from extensions.parameters import lora
from training.files.errors import InputError

VALUE = {torch.float32: 1e-6, torch.float64: 1e-12}  # of one operation
ENCODER = {torch.float32: 1e-6, torch.float64: 1e-13}  # of two layers


def close_gradients(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    tolerance = {"rtol": 1e-4, "atol": 1e-7} if ours.dtype == torch.float32 else {"atol": 1e-10}
    torch.testing.assert_close(ours, theirs, **({"rtol": 0} | tolerance))
    assert theirs.abs().max() > 1e-6


# ---------------------------------------------------------------------------------------------
# LoRA

IDS = torch.tensor([[2, 9, 8, 40, 3], [2, 7, 3, 0, 0]])
MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])


def theirs_of(ours: BertModel) -> transformers.BertModel:
    """The model of transformers with the same weights."""
    config = transformers.BertConfig(**ours.config.to_dict(), attn_implementation="eager")
    theirs = transformers.BertModel(config).to(ours.dtype).eval()
    theirs.load_state_dict(ours.to_hf_weights(), strict=True)
    return theirs


def summed(hidden: torch.Tensor) -> torch.Tensor:
    """A number that depends on all vectors of pieces that are none of padding."""
    weights = torch.linspace(-1, 1, hidden.size(-1), dtype=hidden.dtype)
    return ((hidden * weights).sum(dim=-1) * MASK).square().sum() / 10


def with_oracle(dtype: torch.dtype):
    """Ours and peft's with the same random updates."""
    ours = random_bert(dtype)
    config = peft.LoraConfig(r=3, lora_alpha=5, target_modules=["query", "value"])
    theirs = peft.get_peft_model(theirs_of(ours), config).eval()
    lora.add_lora(ours, rank=3, alpha=5)
    pairs = []
    names = {"lora_a": "lora_A.default.weight", "lora_b": "lora_B.default.weight"}
    other = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        if not parameter.requires_grad:
            continue
        path, _, short = name.rpartition(".")
        layer, part = path.split(".")[1], path.rpartition(".")[2]
        twin = other[f"base_model.model.encoder.layer.{layer}.attention.self.{part}.{names[short]}"]
        with torch.no_grad():
            parameter.add_(0.3 * torch.randn_like(parameter))
            twin.copy_(parameter)
        pairs.append((parameter, twin))
    assert len(pairs) == 2 * 2 * 2
    return ours, theirs, pairs


@DTYPES
def test_lora_is_that_of_peft(dtype):
    ours, theirs, pairs = with_oracle(dtype)
    without = random_bert(dtype)(IDS, MASK)["last_hidden_state"]
    mine = ours(IDS, MASK)["last_hidden_state"]
    other = theirs(IDS, attention_mask=MASK).last_hidden_state
    real = MASK.bool()
    assert (mine - without)[real].abs().max() > 0.03
    torch.testing.assert_close(mine[real], other[real], rtol=0, atol=5 * ENCODER[dtype])
    summed(mine).backward()
    summed(other).backward()
    for parameter, twin in pairs:
        close_gradients(parameter.grad, twin.grad)


@DTYPES
def test_folded_it_is_a_plain_model(dtype):
    ours, theirs, _ = with_oracle(dtype)
    expected = ours(IDS, MASK)["pooler_output"]
    atol = 1e-5 if dtype == torch.float32 else 1e-12
    lora.fold_lora(ours)
    assert set(ours.state_dict()) == set(random_bert().state_dict())
    torch.testing.assert_close(ours(IDS, MASK)["pooler_output"], expected, rtol=0, atol=atol)
    folded = theirs.merge_and_unload().state_dict()
    for name, tensor in ours.to_hf_weights().items():
        torch.testing.assert_close(tensor, folded[name], rtol=0, atol=atol)


def test_at_the_start_nothing_changes_and_what_is_learned_goes_into_a_small_file():
    first, second = random_bert(), random_bert()
    expected = first(IDS, MASK)["last_hidden_state"]
    names = set(first.state_dict())
    for model in (first, second):
        lora.add_lora(model)
    assert torch.equal(first(IDS, MASK)["last_hidden_state"], expected)
    learn = {name for name, p in first.named_parameters() if p.requires_grad}
    assert learn == set(first.state_dict()) - names == set(lora.lora_tensors(first))
    for tensor in lora.lora_tensors(first).values():
        tensor.add_(0.1)
    missing, unexpected = second.load_state_dict(lora.lora_tensors(first), strict=False)
    assert not unexpected
    assert set(missing) == set(first.state_dict()) - learn
    learned = first(IDS, MASK)["last_hidden_state"]
    assert not torch.allclose(learned, expected)
    assert torch.equal(second(IDS, MASK)["last_hidden_state"], learned)


def test_impossible_updates():
    with pytest.raises(InputError, match=r"rank 33: a matrix \(32, 32\) has no such rank"):
        lora.add_lora(random_bert(), rank=33)


# ---------------------------------------------------------------------------------------------
# Distillation


def outputs(*shape: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 3 * torch.randn(*shape, generator=generator, dtype=torch.float64)


def soft_as_printed(student, teachers, temperature: float) -> torch.Tensor:
    """T² Σ p (log p − log q), p the mean of the members' probabilities; a logit is of "yes"."""
    if student.dim() == 1:
        student, teachers = (torch.stack([0 * z, z], dim=-1) for z in (student, teachers))
    p = (teachers / temperature).softmax(dim=-1)
    p = p.mean(dim=0) if p.dim() > student.dim() else p
    q = (student / temperature).softmax(dim=-1)
    return temperature**2 * (p * (p.log() - q.log())).sum()


@DTYPES
@pytest.mark.parametrize("temperature", [1.0, 5.0])
@pytest.mark.parametrize(
    "shapes", [((7, 5), (7, 5)), ((6, 4), (3, 6, 4)), ((6,), (6,)), ((6,), (3, 6))]
)
def test_soft_loss_is_hintons(shapes, temperature, dtype):
    """Of classes and of yes or no, of one teacher and of several."""
    student, teachers = (outputs(*shape, seed=i).to(dtype) for i, shape in enumerate(shapes))
    student.requires_grad_()
    value = distillation.soft_loss(student, teachers, temperature)
    expected = soft_as_printed(student, teachers, temperature)
    torch.testing.assert_close(value, expected, rtol=10 * VALUE[dtype], atol=10 * VALUE[dtype])
    close_gradients(*(torch.autograd.grad(loss, student)[0] for loss in (value, expected)))


def test_score_and_mixed_loss_by_hand():
    student = torch.tensor([1.0, 4.0], requires_grad=True)
    teachers = torch.tensor([[2.0, 4.0], [4.0, 5.0]])
    value = distillation.score_loss(student, teachers)  # from 3 and 4.5
    value.backward()
    assert value.item() == pytest.approx((4 + 0.25) / 25)
    torch.testing.assert_close(student.grad, torch.tensor([-4.0, -1.0]) / 25)
    assert distillation.score_loss(student, teachers[0]).item() == pytest.approx(1 / 25)
    assert distillation.mixed_loss(torch.tensor(8.0), torch.tensor(4.0), 0.25).item() == 7.0
