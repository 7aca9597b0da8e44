"""lessons/fill_mask.py: the words of transformers' pipeline."""

import pytest
import torch
import transformers
from factories import WORDS, stir, tiny_config, tiny_vocabulary
from safetensors.torch import load_file, save_file

from lessons import fill_mask, playground
from pretraining.model import PretrainingModel
from tokenizer import BertTokenizer


def test_the_words_are_those_of_transformers(tmp_path):
    """Also where the head's bias has the other name that Hugging Face's files give it."""
    vocabulary = tiny_vocabulary()
    torch.manual_seed(1)
    stir(PretrainingModel(tiny_config(vocab_size=len(vocabulary))), 0.3).save_pretrained(tmp_path)
    BertTokenizer(vocabulary).save_pretrained(tmp_path)
    text = f"{WORDS[0]} [MASK] {WORDS[1]} [MASK] ."
    ours = fill_mask.fill_mask(*fill_mask.load(str(tmp_path)), text, 5)
    tokenizer = transformers.BertTokenizer.from_pretrained(tmp_path)
    theirs = transformers.BertForMaskedLM.from_pretrained(tmp_path)
    pipeline = transformers.pipeline("fill-mask", model=theirs, tokenizer=tokenizer, top_k=5)
    for mine, wanted in zip(ours, pipeline(text), strict=True):
        assert [piece for piece, _ in mine] == [row["token_str"] for row in wanted]
        assert [p for _, p in mine] == pytest.approx([row["score"] for row in wanted], abs=1e-6)

    tensors = load_file(tmp_path / "model.safetensors")
    tensors["cls.predictions.decoder.bias"] = tensors.pop("cls.predictions.bias")
    save_file(tensors, tmp_path / "model.safetensors")
    assert fill_mask.fill_mask(*fill_mask.load(str(tmp_path)), text, 5) == ours
    assert playground.load(str(tmp_path)).masked
