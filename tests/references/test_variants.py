"""RoBERTa, ALBERT and DistilBERT beside those of transformers on random weights."""

import json

import pytest
import torch
import transformers
from factories import stir
from running import assert_refused, assert_same_tensors, succeeded

from lessons import variants
from lessons.variants import AlbertModel, DistilBertModel, RobertaModel, load

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
CASES = {
    "roberta": (
        RobertaModel,
        transformers.RobertaModel,
        transformers.RobertaConfig(**SMALL, type_vocab_size=1, layer_norm_eps=1e-5),
    ),
    "albert": (
        AlbertModel,
        transformers.AlbertModel,
        transformers.AlbertConfig(**SMALL, embedding_size=16),
    ),
    "distilbert": (
        DistilBertModel,
        transformers.DistilBertModel,
        transformers.DistilBertConfig(**DISTIL, vocab_size=60, max_position_embeddings=24),
    ),
}
PRECISIONS = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


@pytest.fixture(params=CASES)
def pair(request, tmp_path):
    """Our model and transformers' with the same weights, which went through its files."""
    ours, theirs, config = CASES[request.param]
    torch.manual_seed(0)
    reference = stir(theirs(config))
    reference.save_pretrained(tmp_path)
    return ours.from_pretrained(tmp_path), reference


def batch_for(model):
    """Three rows of ids, two of them with padding at the end, one of those at the beginning too."""
    pad = model.config.pad_token_id
    ids = torch.randint(3, 60, (3, 11), generator=torch.Generator().manual_seed(1))  # (B, L)
    mask = torch.ones_like(ids)
    mask[1, 7:] = 0
    mask[2, :2] = mask[2, 9:] = 0
    return ids.masked_fill(mask == 0, pad), mask


def outputs(model, ids, mask, segments=None):
    more = {} if segments is None else {"token_type_ids": segments}
    results = model(input_ids=ids, attention_mask=mask, **more)
    pooled = results["pooler_output"] if "pooler_output" in results else results[0][:, 0]
    return results["last_hidden_state"], pooled


def loss_of(hidden, pooled, mask):
    """Something that depends on every output a task could look at."""
    chance = torch.Generator().manual_seed(2)
    weights = torch.randn(hidden.shape, generator=chance, dtype=torch.float64).to(hidden.dtype)
    return (hidden * weights * mask[..., None]).sum() + pooled.pow(2).sum()


@PRECISIONS
def test_values_and_gradients_are_those_of_transformers(pair, dtype):
    ours, reference = (model.to(dtype) for model in pair)
    single = dtype == torch.float32
    ids, mask = batch_for(ours)
    results, wanted = outputs(ours, ids, mask), outputs(reference, ids, mask)
    torch.testing.assert_close(results, wanted, atol=1e-5 if single else 1e-12, rtol=0)
    for both in (results, wanted):
        loss_of(*both, mask).backward()
    near = {"rtol": 1e-4, "atol": 1e-5} if single else {"rtol": 0, "atol": 1e-10}
    names = dict(ours.hf_names())
    compared = 0
    for name, parameter in reference.named_parameters():
        if parameter.grad is None:  # RoBERTa's and ALBERT's tables all have one
            assert name not in names
            continue
        torch.testing.assert_close(ours.get_parameter(names[name]).grad, parameter.grad, **near)
        compared += 1
    assert compared == len(names)


def test_albert_takes_segments(pair):
    ours, reference = pair
    ids, mask = batch_for(ours)
    segments = (torch.arange(11) > 5).long().expand_as(ids)
    alone, with_segments = (outputs(ours, ids, mask, s)[0] for s in (None, segments))
    if isinstance(ours, AlbertModel):
        torch.testing.assert_close(with_segments, outputs(reference, ids, mask, segments)[0])
        assert not torch.allclose(alone, with_segments)
    else:
        assert torch.equal(alone, with_segments)


def test_a_folder_of_ours_is_read_by_transformers(pair, tmp_path):
    ours, reference = pair
    folder = tmp_path / "ours"
    ours.save_pretrained(folder)
    again, report = type(reference).from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert_same_tensors(again.state_dict(), reference.state_dict())
    loaded = load(folder)
    assert type(loaded) is type(ours)
    assert_same_tensors(loaded.state_dict(), ours.state_dict())


def test_sizes_are_the_published_ones():
    published = {"BERT": 109_482_240, "RoBERTa": 124_645_632, "ALBERT": 11_683_584}
    published["DistilBERT"] = 66_362_880
    with torch.device("meta"):
        for name, (kind, config) in variants.configurations(768, 12).items():
            assert variants.count(kind(config))[0] == published[name]


def test_the_table(run_script_here):
    line = "--hidden 32 --layers 2 --batch_size 1 --length 8".split()
    result = succeeded(run_script_here(variants, *line))
    names = [row.split()[0] for row in result.out.splitlines()[-4:]]
    assert names == ["BERT", "RoBERTa", "ALBERT", "DistilBERT"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model_type": "bert"}, "is not a checkpoint of roberta, albert, distilbert"),
        ({"hidden_act": "gelu"}, "its hidden_act is 'gelu', not 'gelu_new'"),
        ({"num_hidden_groups": 2}, "its num_hidden_groups is 2, not 1"),
        ({"hidden_size": 16}, "does not fit its configuration"),
    ],
)
def test_other_checkpoints_are_refused(tmp_path, run_script_here, values, message):
    transformers.AlbertModel(CASES["albert"][2]).save_pretrained(tmp_path)
    succeeded(run_script_here(variants, "--load", tmp_path))
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))
    assert_refused(run_script_here(variants, "--load", tmp_path), message, code=1)
