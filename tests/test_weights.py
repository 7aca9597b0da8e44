"""Weights in from every kind of checkpoint folder, out to transformers, and what is refused."""

import json
import pickle

import pytest
import torch
import transformers
from factories import Malicious, stir, tiny_config
from running import assert_same_tensors, one_line_error
from safetensors.torch import load_file, save_file
from torch import nn

from base_bert import read_weights
from bert import BertModel

SAFETENSORS, BIN = "model.safetensors", "pytorch_model.bin"


@pytest.fixture
def model() -> BertModel:
    torch.manual_seed(5)
    return stir(BertModel(tiny_config()), 0.05)


def checkpoint(folder, model: BertModel, tensors=None, file: str = SAFETENSORS):
    """A folder with the model's config.json and the given tensors (default: the model's)."""
    model.save_pretrained(folder)
    (folder / SAFETENSORS).unlink()
    tensors = model.to_hf_weights() if tensors is None else tensors
    if file == SAFETENSORS:
        save_file(tensors, folder / file)
    else:
        torch.save(tensors, folder / file)
    return folder


def assert_same_parameters(loaded: nn.Module, model: nn.Module):
    assert_same_tensors(loaded.state_dict(), model.state_dict())


def refused(folder, *facts: str) -> None:
    """from_pretrained's refusal: one line with all the facts in it."""
    with one_line_error(*facts):
        BertModel.from_pretrained(folder)


# ---------------------------------------------------------------------------------------------
# What is read


def old_names(tensors):
    """TensorFlow's gamma and beta, as the first converted checkpoints had them."""
    return {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in tensors.items()
    }


# DistributedDataParallel, torch.compile, a task's model, sentence-transformers
PREFIXES = ("", "bert.", "module.", "module._orig_mod.bert.", "model.bert.", "0.auto_model.")


@pytest.mark.parametrize("file", [SAFETENSORS, BIN])
@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("rename", [dict, old_names], ids=["weight", "gamma"])
def test_files_prefixes_and_old_names(tmp_path, model, capsys, file, prefix, rename):
    tensors = rename(model.to_hf_weights())
    assert any("gamma" in name for name in tensors) == (rename is old_names)
    folder = checkpoint(tmp_path, model, {prefix + k: v for k, v in tensors.items()}, file)
    loaded = BertModel.from_pretrained(str(folder))
    assert_same_parameters(loaded, model)
    assert "weights:" not in capsys.readouterr().out  # nothing missing, nothing left aside


def test_shards_cannot_point_outside_the_folder(tmp_path, model):
    checkpoint(tmp_path / "outside", model)
    folder = checkpoint(tmp_path / "model", model)
    weight_map = {"x": f"../outside/{SAFETENSORS}"}
    index = folder / f"{SAFETENSORS}.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}), encoding="utf-8")
    (folder / SAFETENSORS).unlink()
    refused(folder, str(folder / SAFETENSORS))


def test_shards_saved_by_transformers_are_read(tmp_path):
    config = transformers.BertConfig(**tiny_config().to_dict())
    theirs = transformers.BertForPreTraining(config).eval()
    theirs.save_pretrained(tmp_path, max_shard_size="50KB")
    index = tmp_path / f"{SAFETENSORS}.index.json"
    assert index.is_file()
    ours = BertModel.from_pretrained(tmp_path)
    ids = torch.randint(100, (2, 9))
    mask = torch.ones_like(ids)
    with torch.no_grad():
        expected = theirs.bert(ids, mask).pooler_output
        torch.testing.assert_close(ours(ids, mask)["pooler_output"], expected, atol=1e-5, rtol=0)
    shard = min(tmp_path.glob("model-*.safetensors"))
    shard.unlink()
    refused(tmp_path, str(shard))
    for broken in ("{", '{"weight_map": [1]}'):
        index.write_text(broken, encoding="utf-8")
        refused(tmp_path, str(index))


def test_shards_of_pickles_are_read(tmp_path, model):
    folder = checkpoint(tmp_path, model, file=BIN)
    (folder / BIN).unlink()
    shards = {name: f"pytorch_model-{i % 2}.bin" for i, name in enumerate(model.to_hf_weights())}
    for shard in set(shards.values()):
        tensors = {name: t for name, t in model.to_hf_weights().items() if shards[name] == shard}
        torch.save(tensors, folder / shard)
    text = json.dumps({"weight_map": shards})
    (folder / f"{BIN}.index.json").write_text("\ufeff" + text, encoding="utf-8")
    assert_same_parameters(BertModel.from_pretrained(folder), model)


def test_heads_are_left_aside_in_one_line(tmp_path, model, capsys):
    heads = ("predictions.bias", "predictions.decoder.weight", "seq_relationship.weight")
    tensors = {f"bert.{name}": tensor for name, tensor in model.to_hf_weights().items()}
    tensors["bert.embeddings.position_ids"] = torch.arange(64)[None]  # known, not worth a word
    tensors |= {f"cls.{name}": torch.zeros(2) for name in heads}
    loaded = BertModel.from_pretrained(checkpoint(tmp_path, model, tensors))
    assert_same_parameters(loaded, model)
    (line,) = [x for x in capsys.readouterr().out.splitlines() if x.startswith("weights:")]
    assert line.endswith("does not have them: cls (3 tensors)")


def test_a_missing_pooler_is_warned_of_and_the_rest_loaded(tmp_path, model, capsys):
    tensors = {k: v for k, v in model.to_hf_weights().items() if not k.startswith("pooler.")}
    loaded = BertModel.from_pretrained(checkpoint(tmp_path, model, tensors))
    (line,) = [x for x in capsys.readouterr().out.splitlines() if x.startswith("weights:")]
    assert "no pooler" in line
    assert loaded.pooler_dense.weight.std() > 0.01
    loaded.pooler_dense.load_state_dict(model.pooler_dense.state_dict())
    assert_same_parameters(loaded, model)


# ---------------------------------------------------------------------------------------------
# What is refused


@pytest.mark.parametrize(
    ("changed", "config"),
    [
        ({"encoder.layer.1.attention.self.key.bias": None}, {}),
        (None, {}),
        ({"pooler.dense.weight": torch.zeros(32, 31)}, {}),
        ({}, {"vocab_size": 101}),
    ],
    ids=["one missing", "all missing", "wrong shape", "other config"],
)
def test_tensors_that_do_not_fit(tmp_path, model, message, changed, config):
    tensors = {"other.weight": torch.zeros(2)}
    if changed is not None:
        tensors = model.to_hf_weights() | changed
        tensors = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    folder = checkpoint(tmp_path, model, tensors)
    values = json.loads((folder / "config.json").read_text(encoding="utf-8")) | config
    (folder / "config.json").write_text(json.dumps(values), encoding="utf-8")
    with one_line_error(str(folder)) as caught:
        BertModel.from_pretrained(folder)
    message(str(caught.value))


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.float8_e4m3fn], ids=str)
@pytest.mark.parametrize(
    "name", ["encoder.layer.0.output.dense.weight", "classifier.weight", "pooler.dense.bias"]
)
def test_quantized_weights_are_refused(tmp_path, model, dtype, name):
    tensors = model.to_hf_weights() | {"classifier.weight": torch.ones(3, 32)}
    tensors[name] = tensors[name].to(dtype)
    refused(checkpoint(tmp_path, model, tensors), f"{name} is ", "quantized")


QUERY = "encoder.layer.0.attention.self.query.weight"
MISREAD = {
    "holds nan": lambda tensors: tensors[QUERY].fill_(float("nan")),
    "is complex64": lambda tensors: tensors.update({QUERY: tensors[QUERY].to(torch.complex64)}),
}


@pytest.mark.parametrize("fact", MISREAD)
def test_weights_that_would_be_misread(tmp_path, model, fact):
    tensors = model.to_hf_weights()
    MISREAD[fact](tensors)
    refused(checkpoint(tmp_path, model, tensors, file=BIN), str(tmp_path), fact)


@pytest.mark.parametrize("file", [SAFETENSORS, BIN, "legacy"])
@pytest.mark.parametrize("kept", [0, 100, -1])
def test_a_truncated_file(tmp_path, model, file, kept):
    folder = checkpoint(tmp_path, model, file=BIN if file == "legacy" else file)
    path = folder / (BIN if file == "legacy" else file)
    if file == "legacy":  # .bin before torch 1.6: a bare pickle, then the numbers
        torch.save(model.to_hf_weights(), path, _use_new_zipfile_serialization=False)
    BertModel.from_pretrained(folder)  # whole, it is read
    path.write_bytes(path.read_bytes()[:kept])
    refused(folder, str(path))


@pytest.mark.parametrize("bare", [True, False], ids=["pickle", "torch.save"])
def test_a_malicious_pickle_is_not_executed(tmp_path, model, bare):
    folder = checkpoint(tmp_path / "model", model, file=BIN)
    trace = tmp_path / "executed"
    payload = model.to_hf_weights() | {"embeddings.position_ids": Malicious(trace)}
    if bare:
        (folder / BIN).write_bytes(pickle.dumps(payload, protocol=2))
    else:
        torch.save(payload, folder / BIN)
    refused(folder, str(folder / BIN), "holds more than tensors")
    assert not trace.exists()
    with (folder / BIN).open("rb") as file:  # the trap does work where nobody looks
        torch.load(file, weights_only=False) if not bare else pickle.load(file)
    assert trace.is_dir()


def test_a_bin_that_holds_other_things(tmp_path, model):
    folder = checkpoint(tmp_path, model, file=BIN)
    (folder / BIN).write_text("<html>404</html>", encoding="utf-8")
    refused(folder, str(folder / BIN))
    (folder / BIN).unlink()
    refused(folder, str(folder), SAFETENSORS, BIN)


# ---------------------------------------------------------------------------------------------
# What is written


@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
def test_transformers_loads_what_we_save(tmp_path, model, precision):
    # A configuration that came from a half-precision checkpoint names that precision.
    model.config.torch_dtype = model.config.dtype = "float16"
    model.config.option = "finetune"
    model.config.num_labels = {0: 0}
    model.to(precision).save_pretrained(tmp_path)
    first = (tmp_path / SAFETENSORS).read_bytes()
    model.save_pretrained(tmp_path)
    assert (tmp_path / SAFETENSORS).read_bytes() == first
    assert {path.name for path in tmp_path.iterdir()} == {"config.json", SAFETENSORS}
    theirs, notes = transformers.BertModel.from_pretrained(
        tmp_path, attn_implementation="eager", output_loading_info=True
    )
    assert not any(notes[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert theirs.dtype == precision
    ids = torch.randint(1, 100, (3, 11))
    mask = (torch.arange(11) < torch.tensor([11, 4, 1])[:, None]).long()
    with torch.no_grad():
        mine, reference = model(ids, mask), theirs.eval()(ids, mask)
    for name in ("last_hidden_state", "pooler_output"):
        torch.testing.assert_close(mine[name], reference[name], atol=1e-6, rtol=0)
    loaded = BertModel.from_pretrained(tmp_path).to(precision)
    assert_same_parameters(loaded, model.float().to(precision))
    names = dict(theirs.named_parameters()).keys()
    assert load_file(tmp_path / SAFETENSORS).keys() == names == read_weights(tmp_path).keys()


# ---------------------------------------------------------------------------------------------
# How from_pretrained is called


def test_a_config_and_its_keywords(tmp_path, model):
    folder = checkpoint(tmp_path, model)
    loaded = BertModel.from_pretrained(folder)
    assert not any(module.training for module in loaded.modules())
    assert loaded.name_or_path == loaded.config.name_or_path == str(tmp_path)
    config = tiny_config(num_hidden_layers=1, hidden_dropout_prob=0.7)
    loaded = BertModel.from_pretrained(folder, config=config)
    assert loaded.config is config
    assert (len(loaded.bert_layers), loaded.embed_dropout.p) == (1, 0.7)
    keywords = {"hidden_dropout_prob": 0.25, "output_attentions": False}  # an unknown one, too
    loaded = BertModel.from_pretrained(folder, local_files_only=True, **keywords)
    assert loaded.config.hidden_dropout_prob == loaded.embed_dropout.p == 0.25


class WithKeywords(BertModel):
    """Takes a positional argument and keywords of its own."""

    def __init__(self, config, positional=None, *, labels=2, scale=1.0):
        super().__init__(config)
        self.head = nn.Linear(config.hidden_size, labels)
        self.positional, self.scale = positional, scale


def test_a_subclass_s_keywords_go_to_its_init(tmp_path, model):
    folder = checkpoint(tmp_path, model)
    loaded = WithKeywords.from_pretrained(folder, "first", labels=7, option="finetune")
    assert isinstance(loaded, WithKeywords)
    assert loaded.head.out_features == 7
    assert (loaded.positional, loaded.scale) == ("first", 1.0)
    assert loaded.config.option == "finetune"
    assert not hasattr(loaded.config, "labels")
    assert torch.equal(loaded.word_embedding.weight, model.word_embedding.weight)
