"""models/books: what its card says of it is so, and it knows its language."""

import random
import re

import pytest
from factories import ROOT

from lessons import fill_mask, grammar
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


def test_it_prefers_sentences_to_their_words_in_another_order(ours):
    model, tokenizer = ours
    rows = (ROOT / "data/practice/ids-sst-dev.csv").read_text(encoding="utf-8").splitlines()[1:51]
    order = random.Random(0)
    pairs = []
    for row in rows:
        words = row.split("\t")[2].split()
        texts = (" ".join(order.sample(words, len(words))), " ".join(words))
        pairs.append(tuple(tuple(tokenizer(text)["input_ids"]) for text in texts))
    sentences = [ids for pair in pairs for ids in pair]
    scores = grammar.sentence_scores(model, sentences, tokenizer.mask_token_id)
    assert (grammar.differences(pairs, scores) > 0).sum() >= 45  # one that counts has 25 of 50
