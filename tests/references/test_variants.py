"""RoBERTa, ALBERT and DistilBERT next to those of transformers on random weights."""

import json

import pytest
import torch
import transformers
from factories import stir
from running import one_line_error, succeeded

from lessons import variants
from lessons.variants import AlbertModel, DistilBertModel, RobertaModel

SMALL = {
    "vocab_size": 60,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 24,
}
DISTIL = {theirs: SMALL.get(ours) for theirs, ours in DistilBertModel.CONFIG_NAMES.items()}
DISTIL |= {"dropout": 0.1, "attention_dropout": 0.1, "activation": "gelu"}
DISTIL |= {"vocab_size": 60, "max_position_embeddings": 24}
ROBERTA = SMALL | {"type_vocab_size": 1, "layer_norm_eps": 1e-5}
CASES = {  # ours, theirs, the values of a small configuration of theirs
    "roberta": (RobertaModel, transformers.RobertaModel, ROBERTA),
    "albert": (AlbertModel, transformers.AlbertModel, SMALL | {"embedding_size": 16}),
    "distilbert": (DistilBertModel, transformers.DistilBertModel, DISTIL),
}


@pytest.fixture(params=CASES)
def pair(request, tmp_path):
    """Our model and transformers' with the same weights, which went through its files."""
    ours, theirs, values = CASES[request.param]
    torch.manual_seed(0)
    reference = stir(theirs(theirs.config_class(**values)))
    reference.save_pretrained(tmp_path)
    return ours.from_pretrained(tmp_path), reference


def batch_for(model):
    """Three rows of ids, two of them with padding at the end, one of those at the beginning too."""
    ids = torch.randint(3, 60, (3, 11), generator=torch.Generator().manual_seed(1))  # (B, L)
    mask = torch.ones_like(ids)
    mask[1, 7:] = 0
    mask[2, :2] = mask[2, 9:] = 0
    return ids.masked_fill(mask == 0, model.config.pad_token_id), mask


def outputs(model, ids, mask, segments=None):
    more = {} if segments is None else {"token_type_ids": segments}
    results = model(input_ids=ids, attention_mask=mask, **more)
    pooled = results["pooler_output"] if "pooler_output" in results else results[0][:, 0]
    return results["last_hidden_state"], pooled


def test_values_and_gradients_are_those_of_transformers(pair):
    ours, reference = (model.double() for model in pair)
    ids, mask = batch_for(ours)
    takes_segments = isinstance(ours, AlbertModel)
    segments = (torch.arange(11) > 5).long().expand_as(ids) if takes_segments else None
    results, wanted = (outputs(model, ids, mask, segments) for model in (ours, reference))
    torch.testing.assert_close(results, wanted, atol=1e-12, rtol=0)
    chance = torch.Generator().manual_seed(2)
    weights = torch.randn(wanted[0].shape, generator=chance, dtype=torch.float64)
    for hidden, pooled in (results, wanted):
        ((hidden * weights * mask[..., None]).sum() + pooled.pow(2).sum()).backward()
    names = dict(ours.hf_names())
    grads = {name: p.grad for name, p in reference.named_parameters() if p.grad is not None}
    assert grads.keys() == names.keys()  # RoBERTa's and ALBERT's other tables have none
    mine = {name: ours.get_parameter(names[name]).grad for name in grads}
    torch.testing.assert_close(mine, grads, rtol=0, atol=1e-10)


def test_the_table_has_the_published_sizes(run_script_here):
    rows = succeeded(run_script_here(variants)).out.replace(",", "").splitlines()[-4:]
    published = {"BERT": 109482240, "RoBERTa": 124645632, "ALBERT": 11683584}
    published["DistilBERT"] = 66362880
    assert {row.split()[0]: int(row.split()[1]) for row in rows} == published


def test_other_checkpoints_are_refused(tmp_path):
    config = transformers.AlbertConfig(**CASES["albert"][2])
    transformers.AlbertModel(config).save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text())
    for name, value, message in (
        ("num_hidden_groups", 2, "its num_hidden_groups is 2, not 1"),
        ("hidden_size", 16, "does not have the shape"),
    ):
        (tmp_path / "config.json").write_text(json.dumps(saved | {name: value}))
        with one_line_error(message):
            AlbertModel.from_pretrained(tmp_path)
