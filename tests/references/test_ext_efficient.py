"""LoRA: values and gradients are those of peft."""

import peft
import pytest
import torch
import transformers
from factories import DTYPES, random_bert
from running import one_line_error

from bert import BertModel
from extensions.parameters import lora

pytestmark = pytest.mark.filterwarnings(  # transformers, from within peft
    "ignore:`is_gradient_checkpointing` is deprecated:FutureWarning"
)

ENCODER = {torch.float32: 1e-6, torch.float64: 1e-13}  # of two layers


def close_gradients(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    tolerance = {"rtol": 1e-4, "atol": 1e-7} if ours.dtype == torch.float32 else {"atol": 1e-10}
    torch.testing.assert_close(ours, theirs, **({"rtol": 0} | tolerance))
    assert theirs.abs().max() > 1e-6


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


def test_at_the_start_nothing_changes_and_only_the_update_learns():
    model = random_bert()
    expected, names = model(IDS, MASK)["last_hidden_state"], set(model.state_dict())
    lora.add_lora(model)
    assert torch.equal(model(IDS, MASK)["last_hidden_state"], expected)
    learn = {name for name, p in model.named_parameters() if p.requires_grad}
    assert learn == set(model.state_dict()) - names
    with one_line_error("rank 33: a matrix (32, 32) has no such rank"):
        lora.add_lora(random_bert(), rank=33)
