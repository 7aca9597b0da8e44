"""Text files → token ids on disk, compared with a plain reading of the same files in memory."""

import itertools
import os
import pickle
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from factories import ROOT, tiny_vocabulary
from hypothesis import given, settings
from hypothesis import strategies as st
from running import needs_fork, one_line_error
from scipy.stats import entropy

from pretraining import blocks
from pretraining import corpus as corpora
from pretraining.blocks import text_files
from pretraining.corpus import build, unigram_entropy
from pretraining.sentences import split_sentences
from tokenizer import BertTokenizer
from training.files.errors import InputError

TINY = BertTokenizer(tiny_vocabulary())


def build_text(folder, text, **options):
    """The corpus of one file with this text."""
    (folder / "text.txt").write_text(text, encoding="utf-8")
    return build([folder / "text.txt"], TINY, folder / "made", workers=1, **options)


# ---------------------------------------------------------------------------------------------
# Sentences


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("“Go.” She went. (So.) Well", ["“Go.”", "She went.", "(So.)", "Well"]),
        ('"Go!" he said. "No."', ['"Go!" he said.', '"No."']),
        ("I saw Mr. Smith and Dr. Who at St. James. Then", 2),
        ("J. R. R. Tolkien wrote. J.R.R. Tolkien too.", 2),
        ("See No. 5 in vol. 2. No. He said no. He did.", 4),
        ("1. Origins of it. 2. The rest", 2),
        ("He stopped… Then… nothing", ["He stopped…", "Then… nothing"]),
        ("", []),
        ("...", ["..."]),
    ],
)
def test_sentences(text, wanted):
    found = split_sentences(text)
    assert (len(found) if isinstance(wanted, int) else found) == wanted


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet='aBé1 .!?…"”“(),\n\u3000Mr一', max_size=80))
def test_sentences_lose_nothing_but_white_space(text):
    found = split_sentences(text)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(sentence and sentence == sentence.strip() for sentence in found)


@pytest.mark.parametrize("unit", [".", '."', "a. (", "Mr. "])
def test_hostile_text_takes_linear_time(unit):
    """A quadratic rule would take hours for this."""
    text = unit * (400_000 // len(unit))
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())


# ---------------------------------------------------------------------------------------------
# ---------------------------------------------------------------------------------------------
# Building


def plainly(files):
    """The same by other means: the whole text in memory, regular expressions, lists of lists."""
    documents = []
    for path in files:
        text = path.read_bytes().decode(errors="replace")
        for document in re.split(r"\n(?:[^\S\n]*\n)+", text):
            sentences = [
                TINY.text_to_ids(sentence)
                for line in document.split("\n")
                for sentence in split_sentences(line)
            ]
            documents.append([ids for ids in sentences if ids])
    return [document for document in documents if document]


def as_lists(corpus):
    return [
        [corpus.ids(slice(*ends)).tolist() for ends in itertools.pairwise(corpus.starts(d))]
        for d in range(corpus.n_documents)
    ]


def write_texts(folder, files=3, documents=4):
    """Small files of random sentences: words, paragraphs, documents, in turn."""
    chance, words = random.Random(0), "one two three four fünf".split()
    folder.mkdir(exist_ok=True)
    paths = []
    for number in range(files):
        text = ""
        for _ in range(documents):
            for _ in range(chance.randint(1, 5)):
                for _ in range(chance.randint(1, 4)):
                    text += " ".join(chance.choices(words, k=chance.randint(1, 9)))
                    text = text[:-1] + text[-1].upper() + chance.choice(". ,! ? ".split()) + " A "
                text += "\n"
            text += chance.choice(["\n", "\n \t\n\n"])
        paths.append(folder / f"{number}.txt")
        paths[-1].write_text(text.rstrip() if number == 1 else text, encoding="utf-8")
    return paths


@pytest.mark.parametrize(("workers", "block"), [(1, 1 << 18), (1, 300), (2, 300)])
def test_a_corpus_is_what_the_files_say(tmp_path, monkeypatch, workers, block):
    files = write_texts(tmp_path / "text")
    monkeypatch.setattr(blocks, "BLOCK", block)  # lines are shorter than 300 bytes
    corpus = build([tmp_path / "text"], TINY, tmp_path / "made", workers=workers)
    wanted = plainly(files)
    assert as_lists(corpus) == wanted
    assert corpus.n_documents == len(wanted) == 12
    sentences = [ids for document in wanted for ids in document]
    assert corpus.n_sentences == len(sentences)
    assert corpus.n_tokens == sum(map(len, sentences))
    assert len(pickle.dumps(corpus)) < 999  # a worker of a loader maps the file itself
    assert as_lists(pickle.loads(pickle.dumps(corpus))) == wanted


def test_sources_are_files_and_folders_each_once(tmp_path):
    (tmp_path / "deep").mkdir()
    for name in ("b.txt", "a.txt", "deep/c.txt", "other.md"):
        (tmp_path / name).touch()
    found = text_files([tmp_path / "b.txt", tmp_path, tmp_path / "other.md"])
    names = [str(path.relative_to(tmp_path)) for path in found]
    assert names == ["b.txt", "a.txt", str(Path("deep/c.txt")), "other.md"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("missing.txt", "missing.txt: no such file or folder"),
        ("empty", "empty holds no *.txt file"),
        ("blank.txt", "no text in "),
        ("utf16.txt", "utf16.txt is not text in UTF-8"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(tmp_path, source, message):
    (tmp_path / "empty").mkdir()
    (tmp_path / "blank.txt").write_text("\n\n")
    (tmp_path / "utf16.txt").write_text("some text", encoding="utf-16")
    (tmp_path / "text.txt").write_text("some text")
    with one_line_error(message):
        build([tmp_path / source], TINY, tmp_path / "made", workers=1)
    assert not list((tmp_path / "made").glob("*"))
    with pytest.raises(InputError, match=r"text\.txt"):
        build([tmp_path / "text.txt"], TINY, tmp_path / "text.txt" / "made", workers=1)


# ---------------------------------------------------------------------------------------------
# Used again, built again


def edit_text(text, folder):
    (text / "0.txt").write_text("one. Two\n")


def add_text(text, folder):
    (text / "9.txt").write_text("one. Two\n")


@pytest.mark.parametrize(
    "change", [edit_text, add_text, lambda text, folder: (folder / "corpus.bin").unlink()]
)
def test_a_corpus_is_used_again_until_the_texts_change(tmp_path, monkeypatch, change):
    text, folder = tmp_path / "text", tmp_path / "made"
    write_texts(text)
    build([text], TINY, folder, workers=1)
    with monkeypatch.context() as patch:
        patch.setattr(corpora, "_write", None)  # is not called
        build([text], TINY, folder, workers=1)
    change(text, folder)
    corpus = build([text], TINY, folder, workers=1)
    assert as_lists(corpus) == plainly(text_files([text]))
    other = BertTokenizer(TINY.pieces[::-1])
    assert build([text], other, folder, workers=1).checksum() != corpus.checksum()


def test_a_build_that_fails_leaves_nothing_that_counts(tmp_path, monkeypatch):
    text, folder = tmp_path / "text", tmp_path / "made"
    write_texts(text)
    build([text], TINY, folder, workers=1)
    edit_text(text, folder)
    with monkeypatch.context() as patch:
        patch.setattr(corpora, "write_json", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            build([text], TINY, folder, workers=1)
    assert not list(folder.glob(".*.part"))
    assert not (folder / "corpus.json").exists()


@needs_fork
def test_workers_end_with_a_parent_that_is_killed(tmp_path):
    """They hold its output open: this test waits for as long as one of them lives."""
    (tmp_path / "a.txt").write_text("a\n")
    program = f"""import itertools, os
from pathlib import Path
from pretraining.blocks import encode_files
from tokenizer import SPECIAL_TOKENS, BertTokenizer
files = itertools.repeat(Path({str(tmp_path / "a.txt")!r}))
next(encode_files(files, BertTokenizer([*SPECIAL_TOKENS, "a"]), 2))
os.kill(os.getpid(), 9)"""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, timeout=60
    )
    assert done.returncode == -signal.SIGKILL


# ---------------------------------------------------------------------------------------------
# Long lines, bad bytes


def test_a_line_longer_than_a_block_stays_in_its_document(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", 64)
    corpus = build_text(tmp_path, "ab " * 700 + "\ncd\n" + "é" * 90 + "\ncd\n\n" + "é" * 50)
    wanted = [["ab"] * 700 + ["cd", "é" * 90, "cd"], ["é" * 50]]
    documents = [[i for ids in document for i in ids] for document in as_lists(corpus)]
    assert documents == [TINY.text_to_ids(" ".join(words)) for words in wanted]


def test_a_sentence_without_end_is_cut(tmp_path):
    corpus = build_text(tmp_path, "a " * 1300)
    assert [len(ids) for ids in as_lists(corpus)[0]] == [512, 512, 276]


def test_bad_bytes_are_replaced_and_counted(tmp_path, capsys):
    replaced_before = "\ufffd".encode()  # such a character in the text counts for nothing
    (tmp_path / "a.txt").write_bytes(b"fine " + replaced_before)
    (tmp_path / "b.txt").write_bytes(b"fine\nbad \xff\xfe here\n" + replaced_before + b"bad \xe9\n")
    (tmp_path / "blank.txt").write_text("\n \n\u200b\n")
    corpus = build([tmp_path], TINY, tmp_path / "made", workers=1)
    assert f"2 lines, most in {tmp_path}/b.txt, are not UTF-8" in capsys.readouterr().out
    words = [[TINY.decode(ids) for ids in document] for document in as_lists(corpus)]
    assert words == [["fine"], ["fine", "bad here", "bad"]]


# ---------------------------------------------------------------------------------------------
# Reading


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    write_texts(folder / "text", files=5, documents=40)
    return build([folder / "text"], TINY, folder / "made", workers=1)


def test_a_split_is_by_whole_documents(corpus):
    documents = as_lists(corpus)
    train, held = corpus.split(0.2, seed=1)
    theirs = as_lists(train), as_lists(held)
    places = [[documents.index(one) for one in part] for part in theirs]
    assert sorted(places[0] + places[1]) == list(range(200))
    assert all(part == sorted(part) for part in places)
    assert 0.17 < held.n_tokens / corpus.n_tokens <= 0.2
    assert train.n_tokens + held.n_tokens == corpus.n_tokens
    for part, lists in zip((train, held), theirs, strict=True):
        assert part.n_tokens == sum(len(ids) for document in lists for ids in document)
    again, other = corpus.split(0.2, seed=1)[1], corpus.split(0.2, seed=2)[1]
    assert as_lists(again) == theirs[1]
    assert as_lists(other) != theirs[1]


def test_unigram_entropy_is_that_of_the_counts(corpus):
    for one in (corpus, *corpus.split(0.2, seed=1)):
        ids = [i for document in as_lists(one) for sentence in document for i in sentence]
        assert unigram_entropy(one) == pytest.approx(entropy(np.bincount(ids)), abs=1e-12)


def test_printed_quotes_and_dashes_become_typed_ones(tmp_path):
    printed = build_text(tmp_path, "“I don’t,” she said—‘no’ … 1–2.\n")
    (tmp_path / "other").mkdir()
    typed = build_text(tmp_path / "other", "\"I don't,\" she said--'no' ... 1-2.\n")
    assert printed.tokens.tolist() == typed.tokens.tolist()
    assert printed.n_tokens > 10


@pytest.mark.parametrize("block", [1 << 18, 12])
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
def test_lines_end_in_any_way(tmp_path, monkeypatch, ending, block):
    monkeypatch.setattr(blocks, "BLOCK", block)
    lines = ["\ufeffone two.", "five", "", "three", "four"]
    (tmp_path / "text.txt").write_bytes(ending.join([*lines, ""]).encode())
    corpus = build([tmp_path / "text.txt"], TINY, tmp_path / "made", workers=1)
    words = [[TINY.text_to_ids(text) for text in part] for part in (lines[:2], lines[3:])]
    assert as_lists(corpus) == words
