"""models/books is what its card says, and it knows its language."""

import random
import re

import torch
from factories import ROOT

from lessons import fill_mask, grammar
from lessons.attention_maps import attention_maps
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


def test_the_page_in_pictures_has_its_numbers():
    page = (ROOT / "docs" / "pictures.md").read_text(encoding="utf-8")
    model, tokenizer = fill_mask.load(OWN_MODEL)
    ids = tokenizer("She opened the [MASK] and walked into the garden.")["input_ids"]
    assert " ".join(map(str, ids)) in page
    ids, mask = torch.tensor([ids]), torch.ones(1, len(ids))
    weights = attention_maps(model.bert, ids, mask)[1, 0, 1, 4]  # layer 2, head 2, [MASK]
    best = model(ids, mask)[0][4].softmax(-1).topk(5).values
    numbers = [f"{weight:.3f}" for weight in weights[[9, 4, 0, 1]].tolist()]
    for number in [*numbers, *(f"{100 * p:.1f} %" for p in best.tolist())]:
        assert f" {number} |" in page
