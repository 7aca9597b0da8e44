"""Text files → token ids on disk, compared with a plain reading of the same files in memory."""

import contextlib
import itertools
import os
import random
import re
import signal
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import entropy
from support import ROOT, needs_fork, one_line_error, tiny_vocabulary

from pretraining import blocks, building
from pretraining import corpus as reading
from pretraining.blocks import read_blocks, text_files
from pretraining.building import build
from pretraining.corpus import Corpus, unigram_entropy
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
# Blocks


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.sampled_from(["a", " b", "\n", "\n\n", "é", "💡", "word ", "\r\n", "\r"]), max_size=60
    ),
    st.integers(4, 20),
)
def test_blocks_are_the_file_cut_at_good_places(tmp_path_factory, units, size):
    text = "".join(units).encode()
    path = tmp_path_factory.mktemp("blocks") / "file.txt"
    path.write_bytes(text)
    text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK", size)
        parts = list(read_blocks([path]))
    assert b"".join(block.text for block in parts) == text
    at = 0
    for block in parts:
        assert 0 < len(block.text) <= size
        assert block.line == 1 + text[:at].count(b"\n")
        assert block.goes_on == (at > 0 and text[at - 1 : at] != b"\n")
        block.text.decode()  # no character is cut
        at += len(block.text)
        assert block.last == (at == len(text))


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
        [corpus.ids[begin:end].tolist() for begin, end in itertools.pairwise(corpus.starts(d))]
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
    assert corpus.ids.dtype == np.uint16
    for limit in (1, 17, len(sentences) + 1):
        corpus = build([tmp_path / "text"], TINY, tmp_path / str(limit), workers, limit)
        found = [ids for document in as_lists(corpus) for ids in document]
        assert found == sentences[:limit]


def test_memory_is_flat_as_a_corpus_grows(tmp_path, monkeypatch):
    """Of one line without an end, which is cut."""
    monkeypatch.setattr(blocks, "BLOCK", 20_000)
    peaks = []
    for count in (4_000, 40_000):
        tracemalloc.start()
        build_text(tmp_path, "no end " * count)
        peaks.append(tracemalloc.get_traced_memory()[1] - 7 * count)  # less the text itself
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


def test_a_line_longer_than_a_block_stays_in_its_document(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", 64)
    corpus = build_text(tmp_path, "ab " * 200 + "\ncd\n" + "e" * 64 + "\ncd\n\n" + "é" * 50)
    wanted = [["ab"] * 200 + ["cd", "e" * 64, "cd"], ["é" * 32, "é" * 18]]
    found = [[i for ids in document for i in ids] for document in as_lists(corpus)]
    assert found == [TINY.text_to_ids(" ".join(words)) for words in wanted]


def test_a_sentence_without_end_is_cut(tmp_path, capsys):
    corpus = build_text(tmp_path, "a " * 1300)
    assert [len(ids) for ids in as_lists(corpus)[0]] == [512, 512, 276]
    assert "1 sentences were cut every 512" in capsys.readouterr().out


def test_bad_bytes_and_files_without_text_are_named(tmp_path, capsys):
    replaced_before = "\ufffd".encode()  # such a character in the text counts for nothing
    (tmp_path / "a.txt").write_bytes(b"fine " + replaced_before)
    (tmp_path / "b.txt").write_bytes(b"fine\nbad \xff\xfe here\n" + replaced_before + b"bad \xe9\n")
    (tmp_path / "empty.txt").touch()
    (tmp_path / "blank.txt").write_text("\n \n\u200b\n")
    corpus = build([tmp_path], TINY, tmp_path / "made", workers=1)
    assert corpus.description["replaced"] == 3
    said = capsys.readouterr().out
    assert f"3 places are not UTF-8 and were replaced; the first: {tmp_path}/b.txt, line 2" in said
    assert f"2 files hold no text: {tmp_path}/blank.txt, {tmp_path}/empty.txt" in said
    found = [[TINY.decode(ids) for ids in document] for document in as_lists(corpus)]
    assert found == [["fine"], ["fine", "bad here", "bad"]]


def test_sources_are_files_and_folders_each_once(tmp_path):
    (tmp_path / "deep").mkdir()
    for name in ("b.txt", "a.txt", "deep/c.txt", "other.md"):
        (tmp_path / name).touch()
    found = text_files([tmp_path / "b.txt", tmp_path, tmp_path / "other.md"])
    names = [str(path.relative_to(tmp_path)) for path in found]
    assert names == ["b.txt", "a.txt", str(Path("deep/c.txt")), "other.md"]


@pytest.mark.parametrize(
    ("source", "message", "options"),
    [
        ("missing.txt", "missing.txt: no such file or folder", {}),
        ("empty", "empty holds no *.txt file", {}),
        ("blank.txt", "no text in ", {}),
        ("utf16.txt", "utf16.txt is not text in UTF-8", {}),
        ("text.txt", "at least 1", {"limit": 0}),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(tmp_path, source, message, options):
    (tmp_path / "empty").mkdir()
    (tmp_path / "blank.txt").write_text("\n\n")
    (tmp_path / "utf16.txt").write_text("some text", encoding="utf-16")
    (tmp_path / "text.txt").write_text("some text")
    with one_line_error(message):
        build([tmp_path / source], TINY, tmp_path / "made", workers=1, **options)
    assert not [file for file in (tmp_path / "made").glob("*") if file.name != ".lock"]
    with pytest.raises(InputError, match=r"the corpus [^:]*made: Not a directory; choose"):
        build([tmp_path / "text.txt"], TINY, tmp_path / "text.txt" / "made", workers=1)


# ---------------------------------------------------------------------------------------------
# Used again, built again


@pytest.fixture
def made(tmp_path):
    """A folder of texts and a corpus of them."""
    write_texts(tmp_path / "text")
    build([tmp_path / "text"], TINY, tmp_path / "made", workers=1)
    return tmp_path / "text", tmp_path / "made"


def test_the_same_inputs_use_the_corpus_again(made, monkeypatch):
    text, folder = made
    monkeypatch.setattr(building, "_write", None)
    build([text], TINY, folder, workers=1)
    shifted = text.rename(text.with_name("elsewhere"))  # the texts count, not their place
    build([shifted], TINY, folder, workers=1)


def edit_text(text, folder):
    path = text / "0.txt"
    path.write_bytes(path.read_bytes().replace(b"one", b"two", 1))  # as long as before


def edit_ids(text, folder):
    data = (folder / "ids.bin").read_bytes()
    (folder / "ids.bin").write_bytes(data[:7] + bytes([data[7] ^ 1]) + data[8:])


def cut_index(text, folder):
    data = (folder / "sentences.bin").read_bytes()
    (folder / "sentences.bin").write_bytes(data[:-8])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (edit_text, "the texts have changed"),
        (edit_ids, "ids.bin is damaged"),
        (cut_index, "sentences.bin has"),
        (lambda text, folder: (folder / "documents.bin").unlink(), "cannot be read"),
        (lambda text, folder: (folder / "corpus.json").write_text("[]"), "cannot be read"),
    ],
)
def test_any_change_builds_it_again_and_says_why(made, capsys, change, why):
    text, folder = made
    change(text, folder)
    capsys.readouterr()
    corpus = build([text], TINY, folder, workers=1)
    assert re.search(f"built again, .*{why}", capsys.readouterr().out)
    assert as_lists(corpus) == plainly(text_files([text]))


@pytest.mark.parametrize(
    ("place", "old_is_whole"),
    [
        ("pretraining.blocks.encode_block", True),
        ("utils.os.replace", False),
        ("pretraining.building.write_json", False),
    ],
)
def test_a_failure_at_any_moment_leaves_nothing_that_counts(made, monkeypatch, place, old_is_whole):
    text, folder = made
    edit_text(text, folder)

    def fail(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(place, fail)
        with pytest.raises(KeyboardInterrupt):
            build([text], TINY, folder, workers=1)
    with contextlib.nullcontext() if old_is_whole else one_line_error("no whole corpus"):
        Corpus(folder)
    assert not list(folder.glob(".*.part"))
    assert as_lists(build([text], TINY, folder, workers=1)) == plainly(text_files([text]))


@needs_fork
def test_workers_end_with_a_parent_that_is_killed(tmp_path):
    """They hold its output open: this test waits for as long as one of them lives."""
    program = """import itertools, os
from pretraining.blocks import Block, encode_blocks
from tokenizer import SPECIAL_TOKENS, BertTokenizer
block = Block(0, 1, False, False, b"a")
encoded = encode_blocks(itertools.repeat(block), BertTokenizer([*SPECIAL_TOKENS, "a"]), 2)
next(encoded)
os.kill(os.getpid(), 9)"""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, timeout=60
    )
    assert done.returncode == -signal.SIGKILL


def test_two_programs_do_not_build_at_once(tmp_path):
    write_texts(tmp_path / "text")
    folder = tmp_path / "made"
    second = threading.Thread(target=build, args=([tmp_path / "text"], TINY, folder, 1))
    with building._locked(folder):
        second.start()
        second.join(0.3)
        assert second.is_alive()
        assert os.listdir(folder) == [".lock"]
    second.join(20)
    assert Corpus(folder).n_documents == 12


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
    with pytest.raises(InputError, match="cannot be held out"):
        corpus.split(1.0, seed=0)


def test_unigram_entropy_is_that_of_the_counts(corpus, monkeypatch):
    monkeypatch.setattr(reading, "READ", 100)
    for one in (corpus, *corpus.split(0.2, seed=1)):
        ids = [i for document in as_lists(one) for sentence in document for i in sentence]
        assert unigram_entropy(one) == pytest.approx(entropy(np.bincount(ids)), abs=1e-12)


def test_printed_quotes_and_dashes_become_typed_ones(tmp_path):
    printed = build_text(tmp_path, "“I don’t,” she said—‘no’ … 1–2.\n")
    (tmp_path / "other").mkdir()
    typed = build_text(tmp_path / "other", "\"I don't,\" she said--'no' ... 1-2.\n")
    assert printed.ids.tolist() == typed.ids.tolist()
    assert len(printed.ids) > 10


@pytest.mark.parametrize("block", [1 << 18, 12])
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
def test_lines_end_in_any_way(tmp_path, monkeypatch, ending, block):
    monkeypatch.setattr(blocks, "BLOCK", block)
    lines = ["\ufeffone two.", "five", "", "three", "four"]
    (tmp_path / "text.txt").write_bytes(ending.join([*lines, ""]).encode())
    corpus = build([tmp_path / "text.txt"], TINY, tmp_path / "made", workers=1)
    words = [[TINY.text_to_ids(text) for text in part] for part in (lines[:2], lines[3:])]
    assert as_lists(corpus) == words
