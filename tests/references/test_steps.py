"""From BERT to ModernBERT in steps: each switch, and their sum."""

import pytest
import torch
from factories import NO_DROPOUT, padded_batch, stir, tiny_config
from running import one_line_error

from bert import BertModel
from lessons.modern_bert import ModernBertModel
from lessons.modern_config import ModernBertConfig
from pretraining.model import PretrainingModel
from pretraining.steps import SWITCHES, StepsConfig, StepsModel

ALL = ",".join(SWITCHES)
BATCH = padded_batch(20, 20, 20, 10)[:2]  # ids and mask (B, L)
SHAPE = NO_DROPOUT | {"num_hidden_layers": 4, "intermediate_size": 96, "local_attention": 6}


def a_model(architecture: str, objective: str = "none", **values) -> StepsModel:
    torch.manual_seed(0)
    config = StepsConfig(**vars(tiny_config(**SHAPE | values)) | {"architecture": architecture})
    return StepsModel(config, objective)


@pytest.mark.parametrize("objective", ["none", "nsp"])
def test_without_switches_it_is_bert_bit_for_bit(objective):
    bert = stir(PretrainingModel(tiny_config(**SHAPE), objective), 0.3)
    ours = a_model("bert", objective)
    ours.load_state_dict(bert.state_dict())
    ids, mask = BATCH
    for model in (bert, ours):
        words, relation = model(ids, mask, ids % 2)
        loss = words.square().mean() + (0 if relation is None else relation.square().mean())
        loss.backward()
    assert torch.equal(ours(ids, mask)[0], bert(ids, mask)[0])
    for (name, mine), theirs in zip(ours.named_parameters(), bert.parameters(), strict=True):
        assert theirs.grad is mine.grad is None or torch.equal(mine.grad, theirs.grad), name


@pytest.mark.parametrize("switch", SWITCHES)
def test_each_switch_alone_changes_the_function(switch):
    """The tensors that it shares with BERT have the same values."""
    bert = stir(PretrainingModel(tiny_config(**SHAPE), "none"))
    model = a_model(switch)
    shared = {n: t for n, t in bert.state_dict().items() if n in model.state_dict()}
    model.load_state_dict(shared, strict=False)
    words, plain = (each(*BATCH)[0][BATCH[1].flatten().bool()] for each in (model, bert))
    assert (words - plain).abs().mean() > 1e-3


def test_with_all_switches_it_is_the_lessons_modernbert():
    """Which agrees with transformers: values and gradients on the same weights, and padding."""
    bases = {"global_rope_theta": 700, "local_rope_theta": 50}
    ours = stir(a_model("modern", layer_norm_eps=1e-5, **bases), 0.2).double()
    config = {"vocab_size": 100, "pad_token_id": 0, "hidden_size": 32, "num_attention_heads": 4}
    config |= {"num_hidden_layers": 4, "intermediate_size": 64, "local_attention": 6} | bases
    theirs = ModernBertModel(ModernBertConfig(**config)).double().eval()
    names = {}  # theirs → ours
    for name in theirs.state_dict():
        is_head = name.startswith(("transform", "decoder"))
        inner = name.replace("feed_forward_layer_norm", "out_layer_norm")
        names[name] = name if is_head else f"bert.{inner}"
    state = ours.state_dict()
    theirs.load_state_dict({name: state[own] for name, own in names.items()})
    left = {n for n, _ in ours.named_parameters()} - {*names.values()}
    assert left == {"bert.pooler_dense.weight"}  # for the second task
    ids, mask = BATCH
    real = mask.flatten().bool()
    words = ours(ids, mask)[0][real]
    logits = theirs(ids, mask)["logits"].flatten(0, 1)[real]
    torch.testing.assert_close(words, logits, rtol=0, atol=1e-12)
    cotangent = torch.randn_like(words)
    for outputs in (words, logits):
        (outputs * cotangent).sum().backward()
    grads = {name: p.grad for name, p in ours.named_parameters()}
    for name, parameter in theirs.named_parameters():
        torch.testing.assert_close(grads[names[name]], parameter.grad, rtol=0, atol=1e-10)


def test_its_folder_is_not_that_of_a_bert(tmp_path):
    a_model("pre-norm,local").save_pretrained(tmp_path)
    with one_line_error("its model_type is 'bert with pre-norm,local', not 'bert'"):
        BertModel.from_pretrained(tmp_path)
