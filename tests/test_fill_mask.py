"""lessons/fill_mask.py: the words of transformers' pipeline; a line for what cannot be filled."""

import shutil

import pytest
import torch
import transformers
from factories import WORDS, stir, tiny_config, tiny_vocabulary
from running import assert_refused
from safetensors.torch import load_file, save_file

from bert import BertModel
from lessons import fill_mask, playground
from pretraining.model import PretrainingModel
from tokenizer import BertTokenizer

pytestmark = pytest.mark.fast


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small random model with its heads."""
    path = tmp_path_factory.mktemp("model")
    vocabulary = tiny_vocabulary()
    torch.manual_seed(1)
    config = tiny_config(vocab_size=len(vocabulary), max_position_embeddings=12)
    stir(PretrainingModel(config), 0.3).save_pretrained(path)
    BertTokenizer(vocabulary).save_pretrained(path)
    return path


@pytest.fixture
def ours(folder):
    return fill_mask.load(str(folder))


def test_the_words_are_those_of_transformers(folder, ours):
    text = f"{WORDS[0]} [MASK] {WORDS[1]} [MASK] ."
    tokenizer = transformers.BertTokenizer.from_pretrained(folder)
    theirs = transformers.BertForMaskedLM.from_pretrained(folder)
    pipeline = transformers.pipeline("fill-mask", model=theirs, tokenizer=tokenizer, top_k=5)
    found = fill_mask.fill_mask(*ours, text, 5)
    for mine, wanted in zip(found, pipeline(text), strict=True):
        assert [piece for piece, _ in mine] == [row["token_str"] for row in wanted]
        assert [p for _, p in mine] == pytest.approx([row["score"] for row in wanted], abs=1e-6)


def test_the_bias_by_its_other_name(folder, ours, tmp_path):
    shutil.copytree(folder, tmp_path / "other")
    weights = tmp_path / "other" / "model.safetensors"
    tensors = load_file(weights)
    tensors["cls.predictions.decoder.bias"] = tensors.pop("cls.predictions.bias")
    save_file(tensors, weights)
    renamed = fill_mask.load(str(weights.parent))
    assert fill_mask.fill_mask(*renamed, "[MASK] .", 5) == fill_mask.fill_mask(*ours, "[MASK] .", 5)
    assert playground.load(str(weights.parent)).masked


def test_what_cannot_be_filled_is_one_line(folder, tmp_path, run_script_here):
    vocabulary = tiny_vocabulary()
    BertModel(tiny_config(vocab_size=len(vocabulary))).save_pretrained(tmp_path / "bare")
    BertTokenizer(vocabulary).save_pretrained(tmp_path / "bare")
    for model, text, fact in (
        (folder, "no place", "has no [MASK]"),
        (folder, ". " * 30 + "[MASK]", "among its first 12 tokens"),
        (tmp_path / "bare", "[MASK]", "has no head for masked words"),
    ):
        assert_refused(run_script_here(fill_mask, "--model", model, "--text", text), fact, code=1)
