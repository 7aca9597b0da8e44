"""models/books is what its card says, and it knows its language."""

import random
import re

from factories import ROOT

from lessons import fill_mask, grammar
from training.files.hub import MODELS, OWN_MODEL
from training.files.writing import sha256_of


def test_it_is_what_its_card_says_and_prefers_sentences_to_their_words_in_another_order():
    model, tokenizer = fill_mask.load(OWN_MODEL)
    folder = MODELS / OWN_MODEL
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"[0-9a-f]{64}", card) == [sha256_of(folder / "model.safetensors")]
    assert f"{sum(p.numel() for p in model.parameters()):,} parameters" in card
    assert f"{len(tokenizer):,} word pieces" in card
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
