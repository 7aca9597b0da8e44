"""Shapes of words, tags joined to BERT, and the tagger: by hand, and against NumPy and nltk."""

import random

import numpy as np
import pytest
import torch
from support import DTYPES, one_line_error, random_bert, tiny_vocabulary
from torch.nn import functional as F

from extensions.features import tagger
from extensions.features import tags as features
from tokenizer import BertTokenizer

# ---------------------------------------------------------------------------------------------
# Shapes of words


def shapes(text: str) -> list[str]:
    return [features.SHAPES[features.shape(word)] for word in text.split()]


def test_shapes_by_hand():
    assert shapes("The film is n't bad , iPhone USA 1990s ... A I'm Don't NOT") == [
        *("Title", "lower", "lower", "negation", "lower", "punctuation", "mixed", "UPPER"),
        *("number", "punctuation", "Title", "Title", "negation", "negation"),
    ]
    assert shapes("don’t can 't cannot know nothing n'") == [
        *("negation", "lower", "negation", "negation", "lower", "negation", "lower"),
    ]


# ---------------------------------------------------------------------------------------------
# Tags along word pieces

TEXTS = [
    "It is n't a Great film, is it?",
    "Zürich 's caf\u00e9s cost 3.50 -- really!",
    "\ufffd odd \u200b characters \u4e2d\u6587 \U0001f600 here",
]


@pytest.fixture
def words() -> features.WordTags:
    return features.WordTags(BertTokenizer(tiny_vocabulary()), "shapes")


@pytest.mark.parametrize("text", TEXTS)
def test_tags_fall_on_their_words_tokens(words, monkeypatch, text):
    """A word's tag is its number, so that each token can be looked up."""
    monkeypatch.setattr(words, "tags_of_words", lambda found: list(range(1, len(found) + 1)))
    words.remember([text])
    ids = words.tokenizer.encode(text.lower())
    expected = [
        number
        for number, word in enumerate(features.WORD.findall(text), start=1)
        for _ in words.tokenizer.text_to_ids(word.lower())
    ]
    tags = words.tags(torch.tensor([[*ids, 0]]), torch.tensor([[1] * len(ids) + [0]]))
    assert tags.tolist() == [[0, *expected, 0, 0]]


def test_words_keep_their_capitals_in_a_pair_too(words):
    """A text that was not remembered is put together from its tokens, in lower case."""
    texts = ["Berlin is NOT 100 miles away.", "not 7 Films ,"]
    alone = [words.tokenizer.encode(text.lower()) for text in texts]
    tensors = [torch.tensor([ids]) for ids in alone]
    lower = [words.tags(ids, torch.ones_like(ids))[0].tolist() for ids in tensors]
    words.cached_tags.clear()
    words.remember(texts)
    tags = [words.tags(ids, torch.ones_like(ids))[0].tolist() for ids in tensors]
    assert tags != lower
    assert len(set(tags[0])) >= 5  # none, Title, lower, negation, number, mark
    pair = torch.tensor([[*alone[0], *alone[1][1:], 0, 0]])
    mask = (torch.arange(pair.size(1)) < pair.size(1) - 2).long()[None]
    assert words.tags(pair, mask).tolist() == [[*tags[0], *tags[1][1:], 0, 0]]


# ---------------------------------------------------------------------------------------------
# Joined to BERT

IDS = torch.tensor([[2, 9, 8, 40, 3], [2, 7, 3, 0, 0]])
MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
TAGS = torch.tensor([[0, 1, 1, 4, 0], [0, 2, 0, 0, 0]])


@DTYPES
def test_tags_at_step_0_change_nothing_and_then_learn(dtype):
    bert = random_bert(dtype)
    table = features.TagEmbedding(5, 32).to(dtype)
    expected = bert(IDS, MASK)["pooler_output"]
    with features.tagged(bert, table, TAGS):
        vectors = bert(IDS, MASK)["pooler_output"]  # (B, D)
    assert torch.equal(vectors, expected)
    vectors.square().sum().backward()
    seen = table.weight.grad.abs().sum(dim=1) > 0  # tag 3 does not occur, tag 0 never moves
    assert seen.tolist() == [False, True, True, False, True]
    with torch.no_grad():
        table.weight[1] += torch.linspace(-1, 1, 32)
        with features.tagged(bert, table, TAGS):
            changed = bert(IDS, MASK)["pooler_output"]
            with pytest.raises(ValueError, match=r"tags of shape \(2, 5\) for ids \(2, 3\)"):
                bert(IDS[:, :3], MASK[:, :3])
    assert not torch.allclose(changed[0], expected[0])
    assert torch.equal(changed[1], expected[1])  # the second row has no word with tag 1
    assert torch.equal(bert(IDS, MASK)["pooler_output"], expected)  # behind the "with"


@pytest.mark.parametrize(("dtype", "atol"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_tags_join_the_sum_before_the_layer_norm(dtype, atol):
    bert = random_bert(dtype)
    table = features.TagEmbedding(5, 32).to(dtype)
    torch.nn.init.normal_(table.weight)
    weights = torch.linspace(-1, 1, 32, dtype=dtype)
    with features.tagged(bert, table, TAGS):
        ours = bert.embed(IDS)  # (B, L, D)
    (ours.square() @ weights).sum().backward()
    twin = table.weight.detach().clone().requires_grad_()
    chosen = F.one_hot(TAGS, 5).to(dtype)  # (B, L, 5)
    total = bert.word_embedding.weight[IDS] + bert.pos_embedding.weight[:5]
    total = total + bert.tk_type_embedding.weight[0] + chosen @ twin
    centred = total - total.mean(dim=-1, keepdim=True)
    scaled = centred / (centred.square().mean(dim=-1, keepdim=True) + 1e-12).sqrt()
    theirs = scaled * bert.embed_layer_norm.weight + bert.embed_layer_norm.bias
    (theirs.square() @ weights).sum().backward()
    torch.testing.assert_close(ours, theirs, rtol=0, atol=10 * atol)
    torch.testing.assert_close(table.weight.grad[1:], twin.grad[1:], rtol=1e-4, atol=10 * atol)


# ---------------------------------------------------------------------------------------------
# The tagger


def made_up(count: int, seed: int) -> list[list[tuple[str, str]]]:
    """Sentences in which a word's tag depends on its looks, on the word and tag before it."""
    chance = random.Random(seed)
    sentences = []
    for _ in range(count):
        sentence = []
        for _ in range(chance.randint(1, 7)):
            kind = chance.choice(["place", "person", "word", "number", "word"])
            if kind == "place":
                sentence += [("in", "O"), (chance.choice(["Paris", "New", "York-2"]), "B-LOC")]
            elif kind == "person":
                name = "".join(chance.choices("abcdeklmno", k=4)).title()
                sentence += [("Mr", "O"), (name, "B-PER"), (name + "son", "I-PER")]
            else:
                texts = {"word": ["runs", "new", "the"], "number": ["12", "1990s"]}
                sentence.append((chance.choice(texts[kind]), "O"))
        sentences.append(sentence)
    return sentences


def by_summing_up(sentences, epochs: int, seed: int) -> tuple[dict, np.ndarray, list]:
    """The averaged perceptron the slow way: a matrix of weights, and the sum of it at every step.

    Returns (feature → row, mean weights (features, tags), tags).
    """
    order = [list(sentence) for sentence in sentences]
    tags = sorted({tag for sentence in order for _, tag in sentence})
    rows: dict[str, int] = {}
    weights = np.zeros((20_000, len(tags)))
    total, steps, chance = np.zeros_like(weights), 0, random.Random(seed)
    for _ in range(epochs):
        for sentence in order:
            words = [word for word, _ in sentence]
            one, two = "<s1>", "<s2>"
            for i, (_, right) in enumerate(sentence):
                found = tagger.word_features(words, i, one, two)
                used = [rows.setdefault(feature, len(rows)) for feature in found]
                total += weights
                steps += 1
                scores = weights[used].sum(axis=0)
                guess = max(np.flatnonzero(scores == scores.max()))
                weights[used, tags.index(right)] += 1
                weights[used, guess] -= 1
                one, two = tags[guess], one
        chance.shuffle(order)
    return rows, total / steps, tags


def test_the_tagger_is_the_averaged_perceptron():
    sentences = made_up(12, seed=1)
    learnt = tagger.Tagger()
    learnt.learn(sentences, epochs=3, seed=5)
    rows, mean, tags = by_summing_up(sentences, epochs=3, seed=5)
    assert learnt.tags == tags
    for feature, row in rows.items():
        for column, tag in enumerate(tags):
            weight = learnt.weights.get(feature, {}).get(tag, 0.0)
            assert weight == pytest.approx(mean[row, column], abs=1e-12)
    assert np.abs(mean).max() > 1


def test_a_damaged_tagger_is_one_line(tmp_path):
    (tmp_path / "t.json").write_text('{"tags": ["A"]}')
    with one_line_error("is not a tagger"):
        tagger.Tagger.load(tmp_path / "t.json")
