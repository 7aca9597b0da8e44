"""models/books: what its card says of it is so, and it knows its language."""

import random
import re

import pytest
import torch
from support import ROOT

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
    assert f"{sum(p.numel() for p in ours[0].parameters()):,} parameters" in card
    assert f"{len(ours[1].get_vocab()):,} word pieces" in card


@torch.no_grad()
def pseudo_likelihood(model, tokenizer, text: str) -> float:
    """Σ log p(piece | all others) (Salazar et al. 2020), each piece hidden in turn."""
    ids = tokenizer(text, return_tensors="pt").input_ids[0]  # (L,)
    places = torch.arange(1, len(ids) - 1)
    rows = ids.repeat(len(places), 1)  # (L - 2, L)
    chosen = torch.zeros_like(rows, dtype=torch.bool)
    chosen[torch.arange(len(places)), places] = True
    rows[chosen] = tokenizer.mask_token_id
    positions = chosen.flatten().nonzero().squeeze(1)
    logits, _ = model(rows, torch.ones_like(rows), positions=positions)
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
