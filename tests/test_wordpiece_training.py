"""Vocabularies: the definition, counted from scratch in every step, and the tokenizers library."""

import random
from collections import Counter
from fractions import Fraction
from itertools import pairwise

import pytest
import tokenizers
import transformers
from factories import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from running import assert_refused, succeeded

from lessons import byte_pairs
from lessons import wordpiece_training as lesson
from lessons.byte_pairs import BytePairTokenizer, count_stretches
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


def as_tuples(merges):
    return [(merge.first, merge.second, merge.piece, merge.count) for merge in merges]


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
    assert as_tuples(merges) == wanted
    assert set(pieces) == vocabulary
    assert len(pieces) == len(vocabulary) <= size


def test_bytes_as_the_tokenizers_library_learns_them():
    chance = random.Random(4)
    words = {
        " " + "".join(chance.choices("abcdefgé", k=chance.randint(2, 8))): chance.randint(1, 300)
        for _ in range(300)
    }
    pieces, merges = learn(words, 400, "bytes")
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE())
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=len(pieces),
        show_progress=False,
        special_tokens=list(byte_pairs.SPECIAL_TOKENS),
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    theirs.train_from_iterator((word * n for word, n in words.items()), trainer)
    ids = theirs.get_vocab()
    # Among equal counts it chooses otherwise: compare up to the first of them
    counts = [merge.count for merge in merges]
    until = next(i for i, (one, next_one) in enumerate(pairwise(counts)) if one == next_one)
    assert until > 30
    end = 261 + until  # after the special tokens and all bytes
    assert sorted(ids, key=ids.get)[261:end] == pieces[261:end]


@pytest.mark.parametrize("method", ["wordpiece", "bpe"])
def test_what_was_learned_is_read_by_both_tokenizers(tmp_path, method):
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    words = count_words(text.splitlines())
    pieces, _ = learn(words, 400, method, least=2)
    assert len(pieces) == len(set(pieces)) == 400
    BertTokenizer(pieces).save_pretrained(tmp_path)
    ours = BertTokenizer(pieces)
    theirs = transformers.BertTokenizer.from_pretrained(tmp_path)
    for line in [*text.splitlines(), "zebra — ☃"]:
        assert ours.tokenize(line) == theirs.tokenize(line)
    assert quality(ours, words)[2] == 0.0  # it knows every character of every word
    assert ours.tokenize("☃") == ["[UNK]"]


TEXTS = ("It's  GOOD—naïve, 漢字!\n", " we'll see 12½ films_x\t", "☃ 𝔘nicode é e\u0301 'S 's")


def as_roberta(pieces, merges):
    """The same vocabulary in the tokenizers library."""
    ids = {piece: number for number, piece in enumerate(pieces)}
    pairs = [(merge.first, merge.second) for merge in merges]
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE(ids, pairs))
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    theirs.decoder = tokenizers.decoders.ByteLevel()
    return BytePairTokenizer(pieces, pairs), theirs


@pytest.fixture(scope="module")
def bytes_of_a_licence():
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    words = count_stretches([*text.splitlines(), *TEXTS])
    return learn(words, 600, "bytes", least=2)


@settings(deadline=None)
@given(st.text(alphabet="ab eé'st1½_.\n 漢☃\u0301#", max_size=30))
@pytest.mark.parametrize("more", ["", *TEXTS])
def test_bytes_are_cut_as_the_tokenizers_library_cuts_them(bytes_of_a_licence, more, text):
    ours, theirs = as_roberta(*bytes_of_a_licence)
    pieces = ours.tokenize(text + more)
    assert pieces == theirs.encode(text + more).tokens
    assert (
        ours.decode(pieces) == text + more == theirs.decode([ours.pieces.index(p) for p in pieces])
    )


def test_bytes_are_read_by_roberta(tmp_path, bytes_of_a_licence):
    ours, _ = as_roberta(*bytes_of_a_licence)
    ours.save_pretrained(tmp_path)
    theirs = transformers.RobertaTokenizer.from_pretrained(tmp_path)
    for text in (*TEXTS, (ROOT / "LICENSE").read_text(encoding="utf-8")):
        assert theirs.tokenize(text) == ours.tokenize(text)
    assert theirs.mask_token_id == ours.pieces.index("<mask>")


def test_the_script_learns_bytes_from_the_practice_texts(run_script_here, tmp_path):
    line = ["--size", "300", "--method", "bytes", "--encode", "A warm ☃", "--out", "v"]
    result = succeeded(run_script_here(lesson, *line))
    ours = transformers.RobertaTokenizer.from_pretrained(tmp_path / "v")
    assert len(ours) == 300
    assert f"bytes      {' '.join(ours.tokenize('a warm ☃'))}" in result.out


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--text empty.txt", "there are no words to learn from"),
        ("--text ok.txt --size 260", "--size 260 is too small for 256 characters"),
        ("--text ok.txt --out taken", "cannot write taken"),
    ],
)
def test_bad_input(run_script_here, tmp_path, line, said):
    (tmp_path / "empty.txt").write_text("\n \n")
    (tmp_path / "ok.txt").write_text("abba\n")
    (tmp_path / "taken").write_text("x")
    assert_refused(run_script_here(lesson, *line.split()), said)
