"""Vocabularies: the definition, counted from scratch in every step, and the tokenizers library."""

from collections import Counter
from fractions import Fraction
from itertools import pairwise

import pytest
import transformers
from factories import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from running import succeeded

from lessons import wordpiece_training as lesson
from lessons.wordpiece_training import count_words, learn, quality, spell
from tokenizer import SPECIAL_TOKENS, BertTokenizer


def by_definition(words, size, method, least):
    """The same from scratch: all counts anew in each step, scores as exact fractions."""
    spellings = {word: spell(word) for word in words}
    vocabulary = {*SPECIAL_TOKENS} | {piece for s in spellings.values() for piece in s}
    merges = []
    while len(vocabulary) < size:
        pieces, pairs = Counter(), Counter()
        for word, spelled in spellings.items():
            for piece in spelled:
                pieces[piece] += words[word]
            for pair in pairwise(spelled):
                pairs[pair] += words[word]
        scores = {
            pair: Fraction(n, pieces[pair[0]] * pieces[pair[1]] if method == "wordpiece" else 1)
            for pair, n in pairs.items()
            if n >= least
        }
        if not scores:
            break
        first, second = min(scores, key=lambda pair: (-scores[pair], -pairs[pair], pair))
        new = first + second.removeprefix("##")
        merges.append((first, second, new, pairs[first, second]))
        for word, spelled in spellings.items():
            joined = []
            for piece in spelled:
                if piece == second and joined[-1:] == [first]:
                    joined[-1] = new
                else:
                    joined.append(piece)
            spellings[word] = joined
        vocabulary.add(new)
    return vocabulary, merges


corpora = st.dictionaries(
    st.text(alphabet="abc", min_size=1, max_size=7), st.integers(1, 6), min_size=1, max_size=12
)


@pytest.mark.parametrize("method", ["wordpiece", "bpe"])
@settings(max_examples=100, deadline=None)
@given(words=corpora, extra=st.integers(0, 20), least=st.integers(1, 3))
def test_every_merge_is_the_one_the_definition_makes(method, words, extra, least):
    characters = len({piece for word in words for piece in spell(word)})
    size = len(SPECIAL_TOKENS) + characters + extra
    pieces, merges = learn(words, size, method, least)
    vocabulary, wanted = by_definition(words, size, method, least)
    assert [merge[:4] for merge in merges] == wanted
    assert set(pieces) == vocabulary
    assert len(pieces) == len(vocabulary) <= size


def test_what_was_learned_is_read_by_both_tokenizers(tmp_path):
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    words = count_words(text.splitlines())
    pieces, _ = learn(words, 400, least=2)
    assert len(pieces) == len(set(pieces)) == 400
    ours = BertTokenizer(pieces)
    ours.save_pretrained(tmp_path)
    theirs = transformers.BertTokenizer.from_pretrained(tmp_path)
    for line in [*text.splitlines(), "zebra — ☃"]:
        assert ours.tokenize(line) == theirs.tokenize(line)
    cut = len(ours.tokenize("aaaa"))
    assert cut > 1
    assert quality(ours, {"a": 3, "aaaa": 2, "☃": 5}) == ((3 + 2 * cut + 5) / 10, 0.3, 0.5)


def test_the_script_writes_a_vocabulary_that_transformers_reads(run_script_here, tmp_path):
    line = ["--size", "300", "--encode", "A warm ☃", "--out", "v"]
    result = succeeded(run_script_here(lesson, *line))
    theirs = transformers.BertTokenizer.from_pretrained(tmp_path / "v")
    assert len(theirs) == 300
    assert f"wordpiece  {' '.join(theirs.tokenize('a warm ☃'))}" in result.out
    assert "55,064 words, 6,722 different ones" in result.out
