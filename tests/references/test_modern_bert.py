"""lessons/modern_bert.py against transformers, on random weights: values, gradients, long texts."""

from __future__ import annotations

import pytest
import tokenizers
import torch
import transformers
from factories import padded_batch
from make_modern_bert import exact, tensors
from running import assert_refused, one_line_error, succeeded
from safetensors.torch import load_file

from checks.references import DATA_FILES, TABLES
from lessons import modern_bert
from lessons.modern_bert import ModernBertModel, weight_names
from lessons.modern_config import GLOBAL, LOCAL, ModernBertConfig

SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "cls_token_id": 1, "eos_token_id": 2}
COMMON = SPECIAL | {"sep_token_id": 2, "initializer_range": 0.15}
CONFIGURATIONS = {
    "a window smaller than the text": {
        "vocab_size": 53, "hidden_size": 36, "num_attention_heads": 6, "num_hidden_layers": 5,
        "intermediate_size": 22, "local_attention": 5, "max_position_embeddings": 64,
    },
    "one layer in three is global, the bases are others": {
        "vocab_size": 41, "hidden_size": 40, "num_attention_heads": 4, "num_hidden_layers": 7,
        "intermediate_size": 31, "local_attention": 8, "global_attn_every_n_layers": 3,
        "global_rope_theta": 777.0, "local_rope_theta": 55.0, "norm_eps": 1e-3,
    },
    "its kinds of layers are listed": {
        "vocab_size": 67, "hidden_size": 42, "num_attention_heads": 3, "num_hidden_layers": 3,
        "intermediate_size": 50, "local_attention": 2, "layer_types": [LOCAL, GLOBAL, LOCAL],
    },
}  # fmt: skip
TOLERANCES = {torch.float32: 1e-5, torch.float64: 1e-10}


def transformers_model(values: dict, dtype: torch.dtype = torch.float32):
    """A random ModernBertForMaskedLM of theirs."""
    torch.manual_seed(5)
    with exact(dtype):
        config = transformers.ModernBertConfig(**COMMON | values)
        model = transformers.ModernBertForMaskedLM(config).eval()
    for name, parameter in model.named_parameters():
        if "norm" in name or name == "decoder.bias":
            parameter.data.normal_(1, 0.3)
    return model.to(dtype)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize(
    ("name", "length"),
    [*((name, 19) for name in CONFIGURATIONS), (next(iter(CONFIGURATIONS)), 1024)],
)
def test_agrees_with_transformers(tmp_path, name, length, dtype):
    values = CONFIGURATIONS[name] | {"max_position_embeddings": 1024}
    theirs = transformers_model(values, dtype)
    theirs.save_pretrained(tmp_path)
    config = ModernBertConfig.from_pretrained(str(tmp_path))
    ours = ModernBertModel.from_pretrained(str(tmp_path), config=config).to(dtype)
    ids, mask, _ = padded_batch(length, 2 * length // 3, 3, vocabulary=values["vocab_size"])
    with exact(dtype):
        their_outputs = theirs(ids, attention_mask=mask, output_hidden_states=True)
    results = ours(ids, mask)
    real = mask.bool()
    pairs = {
        "logits": (results["logits"], their_outputs.logits),
        "hidden": (results["last_hidden_state"], their_outputs.hidden_states[-1]),
    }
    near = {"rtol": 0, "atol": TOLERANCES[dtype]}
    for got, expected in pairs.values():
        assert got.dtype == dtype
        torch.testing.assert_close(got[real], expected[real], **near)
    cotangent = torch.randn_like(results["logits"][real]) / real.sum()
    for logits in (results["logits"], their_outputs.logits):
        (logits[real] * cotangent).sum().backward()
    wanted = {n: p.grad for n, p in theirs.named_parameters()}
    own = {n: p.grad for n, p in ours.named_parameters()}
    for their_name, names in weight_names(len(ours.bert_layers)):
        got = torch.cat([own.pop(n) for n in names])
        torch.testing.assert_close(got, wanted.pop(their_name), **near)
    assert (own, wanted) == ({}, {})  # the table names every parameter of both


def test_weights_of_another_shape_or_lacking():
    values = CONFIGURATIONS["a window smaller than the text"]
    right = dict(transformers_model(values).state_dict())
    model = ModernBertModel(ModernBertConfig(**SPECIAL | values))
    name = "model.layers.1.attn.Wqkv.weight"
    lacking = {k: t for k, t in right.items() if k != "head.norm.weight"}
    for wrong in (lacking, right | {name: right[name][:, 1:]}):
        with one_line_error("HERE does not have the shape in its config.json"):
            model.load_hf_weights(wrong, "HERE")


def test_the_command_shows_shapes_or_fills_masks(run_script_here, tmp_path):
    lines = succeeded(run_script_here(modern_bert)).out.splitlines()
    assert any("1.self_attention.query" in line and "(1, 10, 24)" in line for line in lines)
    assert any("2.feed_forward.interm_dense" in line and "(1, 10, 72)" in line for line in lines)

    words = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "it", "was", "good", "bad"]
    level = tokenizers.models.WordLevel({word: i for i, word in enumerate(words)}, "[PAD]")
    tokenizer = tokenizers.Tokenizer(level)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    values = CONFIGURATIONS["its kinds of layers are listed"]
    theirs = transformers_model(values | {"vocab_size": 8})
    theirs.save_pretrained(tmp_path)
    line = ("--model", tmp_path, "--text")
    refused = run_script_here(modern_bert, *line, "[MASK]")
    assert_refused(refused, "tokenizer.json cannot be read (No such file")
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    done = succeeded(run_script_here(modern_bert, *line, "it was [MASK]"))
    logits = theirs(torch.tensor([[4, 5, 3]])).logits[0, 2]
    assert f"'{words[logits.argmax()]}' {logits.softmax(0).max():.1%}" in done.out
    assert_refused(run_script_here(modern_bert, *line, "it was good"), "has no [MASK]")
    tokenizer.add_tokens(["ugly"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert_refused(run_script_here(modern_bert, *line, "[MASK]"), "has 9 tokens, the model 8")


def test_the_checks_references_are_those_of_transformers():
    stored = load_file(DATA_FILES[-1])
    states = {name: stored[name] for name in stored if not name.startswith(TABLES)}
    torch.testing.assert_close(states, tensors(11711), rtol=1e-12, atol=1e-12)
