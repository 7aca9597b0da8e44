"""lessons/grammar.py: scores as transformers gives them, marks as the exam counts them."""

import numpy as np
import pytest
import torch
import transformers
from factories import WORDS, tiny_config, tiny_vocabulary
from running import succeeded
from scipy.stats import binomtest

from lessons import grammar
from pretraining.model import PretrainingModel
from tokenizer import BertTokenizer
from training.files.hub import MODELS, OWN_MODEL

pytestmark = pytest.mark.fast


@pytest.fixture(scope="module")
def books():
    return grammar.load(OWN_MODEL)


@torch.no_grad()
def test_ten_pairs_have_the_scores_of_transformers(books):
    model, tokenizer = books
    folder = MODELS / OWN_MODEL
    theirs = transformers.BertForMaskedLM.from_pretrained(folder, dtype=torch.float32).eval()
    their_tokenizer = transformers.BertTokenizer.from_pretrained(folder)
    pairs = grammar.read_pairs(None)[::230]
    encoded = grammar.encode(tokenizer, pairs, 128)
    sentences = [ids for both in encoded for ids in both]
    scores = grammar.sentence_scores(model, sentences, tokenizer.mask_token_id)
    texts = [text for pair in pairs for text in (pair.bad, pair.good)]
    for text, sentence in zip(texts, sentences, strict=True):
        ids = their_tokenizer(text, return_tensors="pt").input_ids
        assert tuple(ids[0].tolist()) == sentence
        expected = 0.0  # one sentence and one mask at a time
        for place in range(1, ids.shape[1] - 1):
            hidden = ids.clone()
            hidden[0, place] = their_tokenizer.mask_token_id
            expected += float(theirs(hidden).logits[0, place].log_softmax(-1)[ids[0, place]])
        assert scores[sentence] == pytest.approx(expected, abs=1e-3), text
    assert len({len(ids) for ids in sentences}) > 3  # several lengths, some with several sentences


def test_what_a_pair_counts(run_script_here, tmp_path):
    """Of a model that finds "dull" likely anywhere, and all other words equally unlikely."""
    vocabulary = [*tiny_vocabulary(), *WORDS]
    model = PretrainingModel(tiny_config(vocab_size=len(vocabulary)))
    with torch.no_grad():
        model.bert.word_embedding.weight.zero_()
        model.decoder_bias[vocabulary.index("dull")] = 3.0
    model.save_pretrained(tmp_path / "model")
    BertTokenizer(vocabulary).save_pretrained(tmp_path / "model")
    pairs = {
        "right": "a warm film\na dull film\n",
        "wrong": "a dull film\na warm film\n",  # it prefers the ungrammatical sentence
        "tie": "a warm film\nA WARM film\n",  # the same to an uncased model
    }
    (tmp_path / "mine").mkdir()
    for name, lines in pairs.items():
        (tmp_path / f"mine/{name}-one.txt").write_text(lines)
    (tmp_path / "mine/wrong-two.txt").write_text(pairs["wrong"])
    line = ("--model", "model", "--pairs", "mine", "--show", "3")
    done = succeeded(run_script_here(grammar, *line))
    rows = [line.split() for line in done.out.splitlines() if "[" in line]
    assert {name: cells[:2] for name, *cells in rows} == {
        "right": ["1", "1.000"],
        "tie": ["1", "0.500"],
        "wrong": ["2", "0.000"],
        "all": ["4", "0.375"],
    }
    assert "ties, which count half: 1" in done.out
    assert done.out.count("preferred    a dull film") == 2  # three are asked for


def test_the_interval_is_wilson_s():
    for right, count in ((0, 10), (7, 10), (813, 1000)):
        expected = binomtest(right, count).proportion_ci(method="wilson")
        assert grammar.wilson(right / count, count) == pytest.approx(expected, abs=1e-4)


def test_unigrams_are_of_the_vocabulary(books):
    counts = grammar.known_counts(OWN_MODEL, books[1])
    order = np.argsort(counts)[::-1][:4]
    assert set(books[1].convert_ids_to_tokens(order.tolist())) == {",", ".", "the", '"'}
    assert grammar.unigram_scores([3, 0, 1], [(0, 0, 2, 1)]) == {
        (0, 0, 2, 1): pytest.approx(np.log(4 / 7) + np.log(2 / 7))
    }
