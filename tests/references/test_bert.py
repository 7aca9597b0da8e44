"""Our encoder against transformers' BertModel, number for number, and the names of the contract."""

import pytest
import torch
import transformers
from factories import ROOT, stir, tiny_config

from base_bert import weight_names
from bert import BertModel
from config import BertConfig

CONFIGS = {
    "narrow heads": {"num_attention_heads": 12, "hidden_size": 24, "intermediate_size": 17},
    "deep": {"num_hidden_layers": 5, "vocab_size": 41, "max_position_embeddings": 23},
    "other": {"type_vocab_size": 3, "layer_norm_eps": 1e-5, "pad_token_id": 7},
}


def twins(config: BertConfig) -> tuple[BertModel, transformers.BertModel]:
    """Our model and transformers' with the same random weights, biases and norms included."""
    torch.manual_seed(1)
    ours = stir(BertModel(config))
    values = vars(config) | {"attn_implementation": "eager"}
    theirs = transformers.BertModel(transformers.BertConfig(**values)).eval()
    theirs.load_state_dict(ours.to_hf_weights(), strict=True)
    return ours, theirs


def ragged_batch(config: BertConfig) -> dict[str, torch.Tensor]:
    """Random pieces, lengths from 1 to the longest that fits, padded on the right."""
    torch.manual_seed(1)
    longest = min(config.max_position_embeddings, 19)
    lengths = torch.tensor([longest, 1, 2, longest // 2])
    mask = (torch.arange(longest) < lengths[:, None]).long()  # (B, L)
    ids = torch.randint(config.vocab_size, mask.shape)
    return {
        "input_ids": torch.where(mask.bool(), ids, config.pad_token_id),
        "attention_mask": mask,
        "token_type_ids": torch.randint(config.type_vocab_size, mask.shape),
    }


def assert_same_outputs(ours, theirs, batch, tolerance: float):
    with torch.no_grad():
        mine, reference = ours(**batch), theirs(**batch)
    for name in ("last_hidden_state", "pooler_output"):
        torch.testing.assert_close(mine[name], reference[name], atol=tolerance, rtol=0)


@pytest.mark.parametrize("segments", [False, True], ids=["no segments", "segments"])
@pytest.mark.parametrize("precision", [torch.float32, torch.float64], ids=["fp32", "fp64"])
@pytest.mark.parametrize("values", CONFIGS.values(), ids=CONFIGS)
def test_outputs_and_all_gradients_are_those_of_transformers(values, precision, segments):
    config = tiny_config(**values)
    ours, theirs = (model.to(precision) for model in twins(config))
    batch = ragged_batch(config)
    if not segments:
        del batch["token_type_ids"]
    assert_same_outputs(ours, theirs, batch, 1e-5 if precision == torch.float32 else 1e-10)
    torch.manual_seed(2)
    probe = torch.randn(*batch["input_ids"].shape, config.hidden_size)  # weighs every output
    probe = (probe * batch["attention_mask"][..., None] / probe.numel()).to(precision)
    for model in (ours, theirs):
        outputs = model(**batch)
        loss = (outputs["last_hidden_state"] * probe).sum() + outputs["pooler_output"].mean()
        loss.backward()
    for their_name, our_name in weight_names(config.num_hidden_layers):
        mine = ours.get_parameter(our_name).grad
        reference = theirs.get_parameter(their_name).grad
        assert mine is not None, f"{our_name} got no gradient"
        # in float32 a sum that almost cancels is as exact as its terms are large, on any machine
        rounding = 1e-7 + 1e-4 * reference.abs().max().item()
        near = rounding if precision == torch.float32 else 1e-10
        torch.testing.assert_close(mine, reference, rtol=0, atol=near)


def test_names_shapes_and_attributes():
    config = tiny_config()
    model = BertModel(config)
    attention = model.bert_layers[0].self_attention
    names = """word_embedding pos_embedding tk_type_embedding embed_layer_norm embed_dropout
        bert_layers pooler_dense pooler_af self_attention attention_dense attention_layer_norm
        attention_dropout interm_dense interm_af out_dense out_layer_norm out_dropout
        query key value dropout"""
    children = {name.rpartition(".")[2] for name, _ in model.named_modules()} - {"", "0", "1"}
    assert children == {*names.split()}
    assert model.word_embedding.padding_idx == config.pad_token_id
    assert not model.word_embedding.weight[config.pad_token_id].any()
    assert (model.config, model.name_or_path) == (config, config.name_or_path)
    assert model.state_dict()["position_ids"].tolist() == [list(range(64))]
    assert model.half().dtype == torch.float16
    sizes = ("num_attention_heads", "attention_head_size", "all_head_size")
    assert [getattr(attention, size) for size in sizes] == [4, 8, 32]


def test_weights_are_initialised_as_bert_was():
    torch.manual_seed(0)
    for name, parameter in BertModel(tiny_config(initializer_range=0.3)).named_parameters():
        if "bias" in name or "norm.weight" in name:
            assert (parameter == ("weight" in name)).all(), name
        else:
            assert 0.25 < parameter.std() < 0.35, name


def test_the_star_import_of_utils_gives_what_older_code_expects():
    namespace: dict = {}
    exec("from utils import *", namespace)
    names = """torch nn copy os Dict List Optional Set Tuple Union Callable
        get_extended_attention_mask get_parameter_dtype"""
    assert {*names.split()} <= namespace.keys()


OLDER_IMPORTS = """from __future__ import annotations
import math
from base_bert import BertPreTrainedModel
from utils import *
F = nn.functional
"""


def test_an_older_bert_file_loads_weights_unchanged(tiny_model_folder):
    """Classes of its own, whose names come from utils."""
    classes = (ROOT / "bert.py").read_text(encoding="utf-8").partition("\nclass ")
    older: dict = {"__name__": "older_bert"}
    exec(OLDER_IMPORTS + "".join(classes[1:]), older)
    theirs = older["BertModel"].from_pretrained(str(tiny_model_folder), local_files_only=False)
    ours = BertModel.from_pretrained(tiny_model_folder)
    assert not theirs.training
    assert theirs.name_or_path == str(tiny_model_folder)
    assert set(theirs.state_dict()) == set(ours.state_dict())
    batch = ragged_batch(ours.config)
    del batch["token_type_ids"]
    assert_same_outputs(theirs, ours, batch, 1e-5)
