"""Text files → token ids on disk, compared with a plain reading of the same files in memory."""

import itertools
import pickle
import random
import re
from pathlib import Path

import numpy as np
import pytest
from factories import TINY
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import entropy

from pretraining import corpus as corpora
from pretraining.corpus import AS_TYPED, build, text_files, unigram_entropy
from pretraining.sentences import split_sentences
from tokenizer import BertTokenizer


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


def plainly(texts):
    """The same by other means: the whole text in memory, regular expressions, lists of lists."""
    documents = []
    for text in texts:
        for document in re.split(r"\n(?:[^\S\n]*\n)+", text):
            lines = (split_sentences(line) for line in document.split("\n"))
            sentences = itertools.chain.from_iterable(lines)
            ids = [TINY.text_to_ids(sentence.translate(AS_TYPED)) for sentence in sentences]
            documents.append([sentence for sentence in ids if sentence])
    return [document for document in documents if document]


def as_lists(corpus):
    return [
        [corpus.ids(slice(*ends)).tolist() for ends in itertools.pairwise(corpus.starts(d))]
        for d in range(corpus.n_documents)
    ]


def write_texts(folder, files=3, documents=4):
    """Small files of random words, sentences, paragraphs and documents; → their texts."""
    chance, words = random.Random(0), ["one", "two", "fünf.", "Four! And", "six\n"]
    folder.mkdir()
    texts = []
    for number in range(files):
        parts = (" ".join(chance.choices(words, k=40)) for _ in range(documents))
        texts.append("\n \t\n\n".join(parts) + "\n" * (number % 2))
        (folder / f"{number}.txt").write_text(texts[-1], encoding="utf-8")
    return texts


def test_a_corpus_is_what_the_files_say(tmp_path, monkeypatch):
    texts = write_texts(tmp_path / "text")
    monkeypatch.setattr(corpora, "BLOCK", 300)  # characters
    corpus = build([tmp_path / "text"], TINY, tmp_path / "made")
    wanted = plainly(texts)
    assert as_lists(corpus) == wanted
    assert corpus.n_documents == len(wanted) >= 12
    sentences = [ids for document in wanted for ids in document]
    assert corpus.n_sentences == len(sentences)
    assert corpus.n_tokens == sum(map(len, sentences))
    assert len(pickle.dumps(corpus)) < 999  # a worker of a loader maps the file itself
    assert as_lists(pickle.loads(pickle.dumps(corpus))) == wanted


def encode_here(files, tokenizer):
    """In this process, which is quicker for a few blocks."""
    texts = (text for path in files for text in corpora.read_blocks(path))
    return (corpora.encode_block(text, tokenizer) for text in texts)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.sampled_from([*"aBé\n\u200b", "“I’m—…”", "no. ", "\n \t\n", "x" * 50]), max_size=40
    ),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from([100, 1 << 18]),
)
@example(["x" * 50, "\n", "x" * 50], "\n", 100)  # a block that is cut behind a leading blank
def test_any_text_in_any_blocks_with_any_line_ends(tmp_path_factory, words, ending, block):
    """Quotes and dashes become typed ones; a line longer than a block stays in its document."""
    text, folder = " ".join(words), tmp_path_factory.mktemp("any")
    (folder / "text.txt").write_bytes(f"\ufeffone.{ending}{text.replace(chr(10), ending)}".encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpora, "encode_files", encode_here)
        patch.setattr(corpora, "BLOCK", block)
        corpus = build([folder / "text.txt"], TINY, folder / "made")
    found = [[i for ids in document for i in ids] for document in as_lists(corpus)]
    wanted = plainly([f"one.\n{text}"])
    assert found == [[i for ids in document for i in ids] for document in wanted]


def test_a_sentence_without_end_is_cut(tmp_path):
    (tmp_path / "text.txt").write_text("a " * 1300)
    corpus = build([tmp_path / "text.txt"], TINY, tmp_path / "made")
    assert [len(ids) for ids in as_lists(corpus)[0]] == [512, 512, 276]


def test_sources_are_files_and_folders_each_once(tmp_path):
    (tmp_path / "deep").mkdir()
    for name in ("b.txt", "a.txt", "deep/c.txt", "other.md"):
        (tmp_path / name).touch()
    found = text_files([tmp_path / "b.txt", tmp_path, tmp_path / "other.md"])
    names = [str(path.relative_to(tmp_path)) for path in found]
    assert names == ["b.txt", "a.txt", str(Path("deep/c.txt")), "other.md"]


@pytest.mark.parametrize("change", ["0.txt", "9.txt", "lost"])
def test_a_corpus_is_used_again_until_the_texts_change(tmp_path, monkeypatch, change):
    """A text is edited, one is new, or the corpus itself is gone."""
    text, folder = tmp_path / "text", tmp_path / "made"
    write_texts(text)
    build([text], TINY, folder)
    with monkeypatch.context() as patch:
        patch.setattr(corpora, "_write", None)  # is not called
        build([text], TINY, folder)
    if change == "lost":
        (folder / "corpus.bin").unlink()
    else:
        (text / change).write_text("one. Two\n")
    corpus = build([text], TINY, folder)
    assert as_lists(corpus) == plainly(path.read_text("utf-8") for path in text_files([text]))
    other = BertTokenizer(TINY.pieces[::-1])
    assert build([text], other, folder).checksum() != corpus.checksum()


@pytest.fixture
def corpus(tmp_path):
    write_texts(tmp_path / "text", files=5, documents=40)
    return build([tmp_path / "text"], TINY, tmp_path / "made")


def test_a_split_is_by_whole_documents(corpus):
    documents = as_lists(corpus)
    train, held = corpus.split(0.2, seed=1)
    theirs = as_lists(train), as_lists(held)
    places = [[documents.index(one) for one in part] for part in theirs]
    assert sorted(places[0] + places[1]) == list(range(len(documents)))
    assert all(part == sorted(part) for part in places)
    assert 0.17 < held.n_tokens / corpus.n_tokens <= 0.2
    for part, lists in zip((train, held), theirs, strict=True):
        assert part.n_tokens == sum(len(ids) for document in lists for ids in document)
    assert as_lists(corpus.split(0.2, seed=2)[1]) != theirs[1]
    smallest = corpus.split(1e-9, seed=1)[1]  # at least one document
    assert smallest.n_tokens == corpus.document_lengths.min()


def test_unigram_entropy_is_that_of_the_counts(corpus):
    for one in (corpus, *corpus.split(0.2, seed=1)):
        ids = [i for document in as_lists(one) for sentence in document for i in sentence]
        assert unigram_entropy(one) == pytest.approx(entropy(np.bincount(ids)), abs=1e-12)
