"""Masks beside transformers' collator, and rows whose every word piece tells where it came from."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from factories import tiny_vocabulary
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import BertTokenizer as HuggingFaceTokenizer
from transformers import DataCollatorForLanguageModeling

from pretraining.examples import PretrainingExamples
from pretraining.masking import IGNORED, mask_tokens
from tokenizer import BertTokenizer
from training.files.errors import InputError

TINY = BertTokenizer(tiny_vocabulary())


def within(count, of, share, sigmas=4.0):
    """Whether ``count`` heads of ``of`` coins are what a coin of that share gives."""
    return abs(count - of * share) <= sigmas * math.sqrt(of * share * (1 - share))


# ---------------------------------------------------------------------------------------------
# Masks


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vocabulary")
    TINY.save_pretrained(folder)
    return HuggingFaceTokenizer(vocab=str(folder / "vocab.txt"))


def random_ids(rows, length, seed=0):
    """Ids from the whole vocabulary, special ones included, and which are special."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(len(TINY), (rows, length), generator=generator)
    return ids, torch.isin(ids, torch.tensor(TINY.all_special_ids))


@pytest.mark.parametrize("probability", [0.15, 0.3, 1.0])
def test_replays_the_collator_of_transformers_bit_for_bit(theirs, probability):
    assert len(theirs) == len(TINY)
    collator = DataCollatorForLanguageModeling(theirs, mlm_probability=probability, seed=5)
    generator = torch.Generator().manual_seed(5)
    for i, shape in enumerate([(8, 33), (1, 7), (3, 64)]):  # one generator through all batches
        ids, special = random_ids(*shape, seed=i)
        wanted = collator([{"input_ids": row.tolist()} for row in ids])
        before = ids.clone()
        found = mask_tokens(ids, special, TINY.mask_token_id, len(TINY), probability, generator)
        assert torch.equal(found[0], wanted["input_ids"])
        assert torch.equal(found[1], wanted["labels"])
        assert torch.equal(ids, before)


# ---------------------------------------------------------------------------------------------
# A corpus in which no word piece occurs twice

FIRST = len(TINY)  # the id of its first word piece


class Numbered:
    """Documents whose word pieces are FIRST, FIRST + 1 …, given the lengths of their sentences."""

    def __init__(self, documents):
        self.documents = documents
        lengths = [length for document in documents for length in document]
        self.all_starts = np.cumsum([0, *lengths])
        self.count = sum(lengths)
        self.firsts = np.cumsum([0, *map(len, documents)])
        self.document_ends = self.all_starts[self.firsts[1:]]
        self.document_lengths = np.diff(self.document_ends, prepend=0)
        self.n_documents = len(documents)

    def ids(self, positions):
        return FIRST + positions

    def starts(self, d):
        return self.all_starts[self.firsts[d] : self.firsts[d + 1] + 1]

    def document_of(self, piece):
        return int(np.searchsorted(self.document_ends, piece - FIRST, side="right"))

    def pieces_of(self, d):
        starts = self.starts(d)
        return list(range(FIRST + starts[0], FIRST + starts[-1]))

    def sentence_ends(self):
        return set((self.all_starts[1:] + FIRST).tolist())


def tokenizer_of(pieces, begins=lambda i: True):
    """The tiny vocabulary, and as many word pieces more; which of them begin a word."""
    more = (f"{'' if begins(i) else '##'}w{i}" for i in range(pieces))
    return BertTokenizer([*TINY.pieces, *more])


def random_corpus(seed, documents=60, sentences=40, longest=20):
    chance = np.random.default_rng(seed)
    return Numbered(
        [
            chance.integers(1, longest, chance.integers(2, sentences)).tolist()
            for _ in range(documents)
        ]
    )


def make(corpus, objective="nsp", length=64, seed=3, probability=0.15, tokenizer=None, **options):
    flags = {"full_sentences": False, "whole_word": False} | options
    args = SimpleNamespace(objective=objective, length=length, seed=seed, **flags)
    return PretrainingExamples(args, tokenizer or tokenizer_of(corpus.count), corpus, probability)


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
    wrong, others = 0, set()
    for row in rows:
        a, b = two_segments(row)
        assert len(row[0]) <= 64
        here, there = (corpus.document_of(segment[0]) for segment in (a, b))
        assert here == corpus.document_of(a[-1])
        assert there == corpus.document_of(b[-1])
        assert row[2] == (here != there)
        if row[2] == 1:
            wrong += 1
            others.add(there)
        else:
            assert a[-1] < b[0]
            gap = set(range(a[-1] + 1, b[0] + 1))  # where a pair was too long, its seam may be cut
            assert gap & corpus.sentence_ends()
    assert len(rows) > 2000
    assert within(wrong, len(rows), 0.5)
    assert len(others) > 350


def test_sentence_order_swaps_half_of_the_rows():
    corpus = random_corpus(2, documents=300)
    rows = all_of(make(corpus, "sop"))
    for row in rows:
        a, b = two_segments(row)
        assert corpus.document_of(a[0]) == corpus.document_of(b[-1])
        assert row[2] == int(b[0] < a[0])
    assert within(sum(label for *_, label in rows), len(rows), 0.5)


@pytest.mark.parametrize("longest", [20, 200])
def test_single_segments_lose_nothing(longest):
    corpus = random_corpus(5, longest=longest)
    at, ends, cut = FIRST, corpus.sentence_ends(), []
    for ids, segments, label in all_of(make(corpus, "none")):
        inside = ids[1:-1].tolist()
        assert (ids[0], ids[-1], label) == (TINY.cls_token_id, TINY.sep_token_id, IGNORED)
        assert not segments.any()
        assert consecutive(inside)
        assert inside[0] == at
        assert corpus.document_of(inside[0]) == corpus.document_of(inside[-1])
        at = inside[-1] + 1
        if at not in ends:  # longer than a row, or a short row was to be shorter than one
            cut.append(len(ids) == 64)
    assert at == FIRST + corpus.count
    assert len(cut) < 20 if longest == 20 else np.mean(cut) > 0.85


@pytest.mark.parametrize("longest", [20, 200])
def test_full_sentences_fill_rows_across_documents(longest):
    corpus = random_corpus(6, longest=longest)
    examples = make(corpus, "none", full_sentences=True)
    wanted = [corpus.pieces_of(d) for d in examples.order]
    assert sorted(examples.order) == list(range(corpus.n_documents))
    assert examples.order.tolist() != sorted(examples.order)
    stream, ends = [], corpus.sentence_ends()
    rows = [ids.tolist() for ids, _, _ in all_of(examples)]
    for ids in rows:
        assert (ids[0], ids[-1]) == (TINY.cls_token_id, TINY.sep_token_id)
        assert len(ids) <= 64
        stream += ids[1:-1]
        if stream[-1] in {d[-1] for d in wanted}:
            stream.append(TINY.sep_token_id)  # a document ended with the row
    assert stream == [piece for document in wanted for piece in (*document, TINY.sep_token_id)]
    for row, after in itertools.pairwise(rows):  # the next sentence did not fit
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
    st.sampled_from(["nsp", "sop", "none", "full"]),
    st.integers(-5, 5),
)
def test_rows_are_as_long_as_announced_and_never_too_long(documents, length, kind, seed):
    corpus = Numbered(documents)
    full = kind == "full"
    if kind in ("nsp", "sop") and max(map(len, documents)) < 2:
        with pytest.raises(InputError, match="no document has two sentences"):
            make(corpus, kind, length, seed)
        return
    examples = make(corpus, "none" if full else kind, length, seed, full_sentences=full)
    rows = all_of(examples)
    lengths = [len(ids) for ids, _, _ in rows]
    assert examples.lengths().tolist() == lengths
    assert max(lengths) <= length
    if kind in ("nsp", "sop"):
        for row in rows:
            two_segments(row)


# ---------------------------------------------------------------------------------------------
# Epochs and batches


@pytest.mark.parametrize(
    ("objective", "full"), [("nsp", False), ("sop", False), ("none", False), ("none", True)]
)
def test_rows_and_masks_depend_on_seed_and_epoch_alone(objective, full):
    corpus = random_corpus(7)

    def rows_of(examples, epoch):
        examples.set_epoch(epoch)
        rows = all_of(examples)
        return [row[0].tolist() for row in rows], examples.batch(range(8))["labels"]

    examples = make(corpus, objective, full_sentences=full)
    (first, masks), (second, others), (again, same) = (rows_of(examples, e) for e in (1, 2, 1))
    assert first == again != second
    assert torch.equal(masks, same)
    assert not torch.equal(masks, others)
    assert rows_of(make(corpus, objective, full_sentences=full), 2)[0] == second
    assert rows_of(make(corpus, objective, seed=4, full_sentences=full), 2)[0] != second


def test_whole_word_flag_and_probability_reach_the_masks():
    corpus = Numbered([[8] * 40, [8] * 40])
    tokenizer = tokenizer_of(corpus.count, lambda i: i % 4 == 0)  # words of four tokens
    examples = make(corpus, "none", probability=0.4, tokenizer=tokenizer, whole_word=True)
    batch = examples.batch(range(len(examples)))
    assert batch["masked"] == (batch["labels"] != IGNORED).sum()
    special = torch.isin(batch["token_ids"], torch.tensor(TINY.all_special_ids))
    special &= batch["token_ids"] != TINY.mask_token_id
    assert (batch["labels"][special] == IGNORED).all()
    chosen = batch["labels"] != IGNORED
    share = chosen.sum() / (batch["attention_mask"].sum() - 2 * len(examples))
    assert 0.3 < share < 0.5
    assert all(count % 4 == 0 for count in chosen.sum(dim=1).tolist())
