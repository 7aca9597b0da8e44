"""models/books: what its card says of it is so, and it knows its language."""

import json
import random
import re
from pathlib import Path

import pytest
import torch
from support import ROOT, succeeded

import classifier
from lessons import fill_mask
from training.files.hub import MODELS, OWN_MODEL, find_model
from training.files.writing import sha256_of

FOLDER = MODELS / OWN_MODEL


@pytest.fixture(scope="module")
def ours():
    return fill_mask.load(OWN_MODEL)


def test_its_card_and_its_size(ours):
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert find_model(OWN_MODEL) == FOLDER
    assert re.findall(r"[0-9a-f]{64}", card) == [sha256_of(FOLDER / "model.safetensors")]
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 12e6
    model, tokenizer = ours
    assert f"{sum(p.numel() for p in model.parameters()):,} parameters" in card
    config = json.loads((FOLDER / "config.json").read_text(encoding="utf-8"))
    shape = "{num_hidden_layers} layers of {hidden_size}, {num_attention_heads} heads"
    assert shape.format(**config) in card
    assert f"{len(tokenizer.get_vocab()):,} word pieces" in card
    assert f"{config['max_position_embeddings']} positions" in card


@torch.no_grad()
def pseudo_likelihood(model, tokenizer, text: str) -> float:
    """Σ log p(piece | all others) (Salazar et al. 2020), each piece hidden in turn."""
    ids = tokenizer(text, return_tensors="pt").input_ids[0]  # (L,)
    places = torch.arange(1, len(ids) - 1)
    rows = ids.repeat(len(places), 1)  # (L - 2, L)
    chosen = torch.zeros_like(rows, dtype=torch.bool)
    chosen[torch.arange(len(places)), places] = True
    rows[chosen] = tokenizer.mask_token_id
    logits, _ = model(rows, torch.ones_like(rows), chosen=chosen)
    return logits.log_softmax(-1)[torch.arange(len(places)), ids[places]].sum().item()


def test_it_prefers_sentences_to_their_words_in_another_order(ours):
    rows = (ROOT / "data/practice/ids-sst-dev.csv").read_text(encoding="utf-8").splitlines()[1:51]
    order = random.Random(0)
    better = 0
    for row in rows:
        words = row.split("\t")[2].split()
        shuffled = order.sample(words, len(words))
        better += pseudo_likelihood(*ours, " ".join(words)) > pseudo_likelihood(
            *ours, " ".join(shuffled)
        )
    assert better >= 45  # of 50; one that knows frequencies alone has 25


def test_a_classifier_begins_with_it(tiny_data, tmp_path, monkeypatch, run_script_here):
    monkeypatch.chdir(tmp_path)
    Path("predictions").mkdir()
    flags = ("--option", "finetune", "--only", "cfimdb", "--epochs", "1", "--model", OWN_MODEL)
    done = succeeded(run_script_here(classifier, *flags, "--data_dir", tiny_data))
    assert f"model {OWN_MODEL} " in done.out
