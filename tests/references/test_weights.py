"""Weights in from every kind of checkpoint folder, out to transformers, and what is refused."""

import re

import pytest
import torch
import transformers
from factories import Malicious, padded_batch, stir, tiny_config
from running import assert_same_tensors, one_line_error
from safetensors.torch import load_file, save_file

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


def refused(folder, *facts: str) -> None:
    """from_pretrained's refusal: one line with all the facts in it."""
    with one_line_error(*facts):
        BertModel.from_pretrained(folder)


def old_names(tensors):
    """TensorFlow's gamma and beta, as the first converted checkpoints had them."""
    new = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    return {re.sub(r"LayerNorm\.\w+", lambda m: new[m[0]], k): v for k, v in tensors.items()}


# DistributedDataParallel, torch.compile, a task's model, sentence-transformers
PREFIXES = ("", "bert.", "module.", "module._orig_mod.bert.", "model.bert.", "0.auto_model.")


@pytest.mark.parametrize("file", [SAFETENSORS, BIN])
@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("rename", [dict, old_names], ids=["weight", "gamma"])
def test_files_prefixes_and_old_names(tmp_path, model, capsys, file, prefix, rename):
    tensors = rename(model.to_hf_weights())
    folder = checkpoint(tmp_path, model, {prefix + k: v for k, v in tensors.items()}, file)
    assert_same_tensors(BertModel.from_pretrained(str(folder)).state_dict(), model.state_dict())
    assert "weights:" not in capsys.readouterr().out  # nothing missing, nothing left aside


def test_heads_are_left_aside_and_a_missing_pooler_is_new_which_a_line_each_says(
    tmp_path, model, capsys
):
    own = {k: v for k, v in model.to_hf_weights().items() if not k.startswith("pooler.")}
    tensors = {f"bert.{name}": tensor for name, tensor in own.items()}
    tensors["bert.embeddings.position_ids"] = torch.arange(64)[None]  # known, not worth a word
    heads = ("predictions.bias", "predictions.decoder.weight", "seq_relationship.weight")
    tensors |= {f"cls.{name}": torch.zeros(2) for name in heads}
    loaded = BertModel.from_pretrained(checkpoint(tmp_path, model, tensors))
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("weights:")]
    assert ["no pooler" in line for line in said] == [True, False]
    assert "3 tensors" in said[1]
    assert said[1].endswith("(cls)")
    assert loaded.pooler_dense.weight.std() > 0.01
    loaded.pooler_dense.load_state_dict(model.pooler_dense.state_dict())
    assert_same_tensors(loaded.state_dict(), model.state_dict())


def test_a_truncated_file_and_a_malicious_pickle_which_is_not_executed(tmp_path, model):
    file = checkpoint(tmp_path, model, file=BIN) / BIN
    file.write_bytes(file.read_bytes()[:-1])
    refused(tmp_path, str(file))
    trace = tmp_path / "executed"
    torch.save(model.to_hf_weights() | {"embeddings.position_ids": Malicious(trace)}, file)
    refused(tmp_path, str(file), "holds more than tensors")
    assert not trace.exists()


@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
def test_transformers_loads_what_we_save(tmp_path, model, precision):
    # A configuration that came from a half-precision checkpoint names that precision.
    model.config.torch_dtype = model.config.dtype = "float16"
    model.config.option = "finetune"
    model.config.num_labels = {0: 0}
    model.to(precision).save_pretrained(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"config.json", SAFETENSORS}
    theirs, notes = transformers.BertModel.from_pretrained(
        tmp_path, attn_implementation="eager", output_loading_info=True
    )
    assert not any(notes[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert theirs.dtype == precision
    ids, mask, _ = padded_batch(11, 4, 1)
    with torch.no_grad():
        mine, reference = model(ids, mask), theirs.eval()(ids, mask)
    for name in ("last_hidden_state", "pooler_output"):
        torch.testing.assert_close(mine[name], reference[name], atol=1e-6, rtol=0)
    loaded = BertModel.from_pretrained(tmp_path).to(precision)
    assert_same_tensors(loaded.state_dict(), model.float().to(precision).state_dict())
    assert load_file(tmp_path / SAFETENSORS).keys() == dict(theirs.named_parameters()).keys()


def test_a_config_and_its_keywords(tmp_path, model):
    folder = checkpoint(tmp_path, model)
    loaded = BertModel.from_pretrained(folder)
    assert not any(module.training for module in loaded.modules())
    assert loaded.name_or_path == loaded.config.name_or_path == str(tmp_path)
    config = tiny_config(layer_norm_eps=1e-5, hidden_dropout_prob=0.7)
    loaded = BertModel.from_pretrained(folder, config=config)
    assert loaded.config is config
    assert (loaded.embed_layer_norm.eps, loaded.embed_dropout.p) == (1e-5, 0.7)
    keywords = {"hidden_dropout_prob": 0.25, "option": "finetune"}  # an unknown one, too
    loaded = BertModel.from_pretrained(folder, local_files_only=True, **keywords)
    assert loaded.config.hidden_dropout_prob == loaded.embed_dropout.p == 0.25
    assert loaded.config.option == "finetune"
