"""Masks as transformers' collator makes them, and rows whose tokens tell where they came from."""

import itertools
import math
import tempfile
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from factories import TINY
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import BertTokenizer as HuggingFaceTokenizer
from transformers import DataCollatorForLanguageModeling

from pretraining.corpus import DOCUMENT, SENTENCE, Corpus
from pretraining.examples import PretrainingExamples
from pretraining.masking import IGNORED, mask_tokens
from tokenizer import BertTokenizer
from training.files.errors import InputError


@pytest.mark.parametrize("probability", [0.15, 1.0])
def test_replays_the_collator_of_transformers_bit_for_bit(tmp_path, probability):
    TINY.save_pretrained(tmp_path)
    theirs = HuggingFaceTokenizer(vocab=str(tmp_path / "vocab.txt"))
    collator = DataCollatorForLanguageModeling(theirs, mlm_probability=probability, seed=5)
    generator = torch.Generator().manual_seed(5)
    for shape in ((8, 33), (1, 7), (3, 64)):  # one generator through all batches
        ids = torch.randint(len(TINY), shape)  # special ones included
        special = torch.isin(ids, torch.tensor(TINY.all_special_ids))
        wanted = collator([{"input_ids": row.tolist()} for row in ids])
        before = ids.clone()
        found = mask_tokens(ids, special, TINY.mask_token_id, len(TINY), probability, generator)
        assert torch.equal(found[0], wanted["input_ids"])
        assert torch.equal(found[1], wanted["labels"])
        assert torch.equal(ids, before)


FIRST = len(TINY)  # the id of its first word piece


def numbered(documents):
    """A corpus whose tokens are FIRST, FIRST + 1 …, given the lengths of documents' sentences."""
    starts = np.cumsum([0, *itertools.chain(*documents)])
    tokens = np.arange(FIRST, FIRST + starts[-1], dtype=np.uint32)
    tokens[starts[:-1]] |= SENTENCE
    tokens[starts[np.cumsum([0, *map(len, documents)])[:-1]]] |= DOCUMENT
    with tempfile.NamedTemporaryFile() as file:
        tokens.tofile(file)
        file.flush()
        return Corpus(file.name)


def document_of(corpus, token):
    return int(np.searchsorted(corpus.document_ends, token - FIRST, side="right"))


def sentence_ends(corpus):
    return {FIRST + int(end) for d in range(corpus.n_documents) for end in corpus.starts(d)[1:]}


def random_corpus(seed, documents=60, sentences=40, longest=20):
    chance = np.random.default_rng(seed)
    return numbered(
        [
            chance.integers(1, longest, chance.integers(2, sentences)).tolist()
            for _ in range(documents)
        ]
    )


def make(corpus, objective="nsp", length=64, seed=3, probability=0.15, full_sentences=False):
    flags = {"objective": objective, "length": length, "full_sentences": full_sentences}
    tokenizer = BertTokenizer([*TINY.pieces, *(f"w{i}" for i in range(corpus.n_tokens))])
    return PretrainingExamples(SimpleNamespace(**flags, seed=seed), tokenizer, corpus, probability)


def all_of(examples):
    """Rows as they were before they were masked: ids, segments, label."""
    rows = []
    for i in range(len(examples)):
        batch = examples.batch([i])
        ids = torch.where(batch["labels"] == IGNORED, batch["token_ids"], batch["labels"])
        rows.append((ids[0].numpy(), batch["token_type_ids"][0], int(batch["next_labels"][0])))
    return rows


def consecutive(pieces):
    return bool(pieces) and pieces == list(range(pieces[0], pieces[0] + len(pieces)))


def two_segments(row):
    """A and B of a row, after a look at [CLS], [SEP] and the segments."""
    ids, segments, _ = row
    ids = ids.tolist()
    first = ids.index(TINY.sep_token_id)
    a, b = ids[1:first], ids[first + 1 : -1]
    assert ids == [TINY.cls_token_id, *a, TINY.sep_token_id, *b, TINY.sep_token_id]
    assert segments.tolist() == [0] * (len(a) + 2) + [1] * (len(b) + 1)
    assert consecutive(a)
    assert consecutive(b)
    return a, b


def test_next_sentences_come_from_another_document_in_half_of_the_rows():
    corpus = random_corpus(0, documents=400)
    rows = all_of(make(corpus))
    wrong, others, ends = 0, set(), sentence_ends(corpus)
    for row in rows:
        a, b = two_segments(row)
        here, there = (document_of(corpus, segment[0]) for segment in (a, b))
        assert here == document_of(corpus, a[-1])
        assert there == document_of(corpus, b[-1])
        assert row[2] == (here != there)
        if row[2] == 1:
            wrong += 1
            others.add(there)
        else:
            assert a[-1] < b[0]
            gap = set(range(a[-1] + 1, b[0] + 1))  # where a pair was too long, its seam may be cut
            assert gap & ends
    assert len(rows) > 2000
    assert abs(wrong - len(rows) / 2) <= 2 * math.sqrt(len(rows))  # four standard deviations
    assert len(others) > 350


@pytest.mark.parametrize("longest", [20, 200])
def test_single_segments_fill_their_rows(longest):
    """Few are cut within a sentence, unless sentences are longer than a row."""
    corpus = random_corpus(5, longest=longest)
    ends, rows = sentence_ends(corpus), [ids for ids, _, _ in all_of(make(corpus, "none"))]
    cut = [len(ids) == 64 for ids in rows if ids[-2] + 1 not in ends]
    assert len(cut) < 20 if longest == 20 else np.mean(cut) > 0.85


@pytest.mark.parametrize("longest", [20, 200])
def test_full_sentences_fill_rows_across_documents(longest):
    """Into no row would the next sentence have fitted."""
    corpus = random_corpus(6, longest=longest)
    ends = sentence_ends(corpus)
    rows = [ids.tolist() for ids, _, _ in all_of(make(corpus, "none", full_sentences=True))]
    for row, after in itertools.pairwise(rows):
        piece = after[1]
        sentence = next(n for n in range(1, 999) if piece + n in ends)
        assert len(row) + sentence + (row[-2] + 1 != piece) > 64


documents_of_any_kind = st.lists(
    st.lists(st.integers(1, 90), min_size=1, max_size=12), min_size=2, max_size=8
)


@settings(max_examples=60, deadline=None)
@given(
    documents_of_any_kind,
    st.integers(8, 70),
    st.sampled_from(["nsp", "none", "full"]),
    st.integers(0, 5),
)
def test_rows_lose_nothing_and_are_as_long_as_announced(documents, length, kind, seed):
    corpus = numbered(documents)
    full = kind == "full"
    if kind == "nsp" and max(map(len, documents)) < 2:
        with pytest.raises(InputError, match="no document has two sentences"):
            make(corpus, kind, length, seed)
        return
    examples = make(corpus, "none" if full else kind, length, seed, full_sentences=full)
    rows = all_of(examples)
    lengths = [len(ids) for ids, _, _ in rows]
    assert examples.lengths().tolist() == lengths
    assert max(lengths) <= length
    if kind == "nsp":
        for row in rows:
            two_segments(row)
        return
    stream = []
    for ids, segments, label in rows:
        assert (ids[0], ids[-1], label) == (TINY.cls_token_id, TINY.sep_token_id, IGNORED)
        assert not segments.any()
        stream += ids[1:-1].tolist()
        if full and stream[-1] - FIRST + 1 in corpus.document_ends:
            stream.append(TINY.sep_token_id)  # a document ended with the row
        elif not full:
            assert document_of(corpus, ids[1]) == document_of(corpus, ids[-2])
    order = examples.order.tolist() if full else range(corpus.n_documents)
    assert sorted(order) == list(range(corpus.n_documents))
    documents = [(FIRST + np.arange(*corpus.starts(d)[[0, -1]])).tolist() for d in order]
    ending = [TINY.sep_token_id] * full
    assert stream == [piece for document in documents for piece in (*document, *ending)]


@pytest.mark.parametrize(("objective", "full"), [("nsp", False), ("none", False), ("none", True)])
def test_rows_and_masks_depend_on_seed_and_epoch_alone(objective, full):
    corpus = random_corpus(7)

    def rows_of(epoch, seed=3):
        examples = make(corpus, objective, seed=seed, full_sentences=full)
        examples.set_epoch(epoch)
        rows = [row[0].tolist() for row in all_of(examples)]
        return rows, examples.batch(range(8))["labels"].tolist()

    first = rows_of(1)
    assert rows_of(1) == first
    for rows, masks in (rows_of(2), rows_of(1, seed=4)):
        assert rows != first[0]
        assert masks != first[1]
