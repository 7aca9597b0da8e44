"""A corpus: the token ids of a text on disk, which may be larger than memory.

Text files, a paragraph a line and a blank line between documents, are split into sentences
(sentences.py), each sentence is tokenized once (blocks.py), and building.py streams all of it into
three memory-mapped files:

    ids.bin          the token ids of all sentences, one after the other (uint16 or int32)
    sentences.bin    where each sentence begins in ids.bin (int64, one more than there are)
    documents.bin    at which sentence each document begins (int64, one more than there are)
    corpus.json      what it was made of, how large it is, and the hashes; written last

This file reads them. It does not know about masks, models or training.
"""

from __future__ import annotations

import math
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from training.files.errors import InputError, values_of
from training.files.texts import read_json

DATA_FILES = ("ids.bin", "sentences.bin", "documents.bin")
READ = 1 << 22  # ids that are counted at a time


def read_description(folder: str | Path) -> dict[str, Any]:
    """corpus.json; InputError where there is none or its files have other sizes."""
    folder = Path(folder)
    if not (folder / "corpus.json").is_file():
        raise InputError(f"{folder} holds no whole corpus (no corpus.json); build it again")
    description = read_json(folder / "corpus.json")
    with values_of(f"{folder} holds no whole corpus", "build it again"):
        for name in DATA_FILES:
            file, wanted = folder / name, description["files"][name]["bytes"]
            size = file.stat().st_size if file.is_file() else 0
            if size != wanted:
                raise ValueError(f"{name} has {size} bytes, not {wanted}")
    return description


class Corpus:
    """Documents of sentences of token ids, read from disk as they are asked for.

    Documents are numbered from 0. A part of a corpus, as ``split`` makes it, numbers its own from 0
    and is used in the same way. Only the place of the files is pickled.

    Args:
        folder: what ``build`` wrote.
        part: the documents of the corpus that count, in rising order; None for all.

    Raises:
        InputError: files that are not there, or of other sizes than they should be.
    """

    def __init__(self, folder: str | Path, part: np.ndarray | None = None):
        self.folder = Path(folder)
        self.part = part
        self.description = read_description(folder)

    def __reduce__(self):
        return Corpus, (self.folder, self.part)

    def _map(self, name: str, kind: str) -> np.ndarray:
        return np.asarray(np.memmap(self.folder / name, dtype=kind, mode="r"))

    @cached_property
    def ids(self) -> np.ndarray:
        """All token ids on disk, also those of other parts."""
        return self._map("ids.bin", self.description["type"])

    @cached_property
    def _starts(self) -> np.ndarray:
        return self._map("sentences.bin", "int64")

    @cached_property
    def _firsts(self) -> np.ndarray:
        """(documents,) the number on disk of each document's first sentence."""
        documents = self._map("documents.bin", "int64")
        return documents[:-1] if self.part is None else documents[self.part]

    @cached_property
    def _counts(self) -> np.ndarray:
        """(documents,) the number of each document's sentences."""
        counts = np.diff(self._map("documents.bin", "int64"))
        return counts if self.part is None else counts[self.part]

    @property
    def n_documents(self) -> int:
        """How many documents there are."""
        return len(self._firsts)

    @property
    def n_sentences(self) -> int:
        """How many sentences there are."""
        return int(self._counts.sum())

    @cached_property
    def n_tokens(self) -> int:
        """How many tokens there are."""
        return int(self.document_lengths.sum())

    @property
    def document_lengths(self) -> np.ndarray:
        """(documents,) int64: tokens of each document."""
        return self._starts[self._firsts + self._counts] - self._starts[self._firsts]

    def starts(self, d: int) -> np.ndarray:
        """Where in ``ids`` the sentences of a document begin, and where the last one ends."""
        first = int(self._firsts[d])
        return self._starts[first : first + int(self._counts[d]) + 1]  # (sentences + 1,)

    def split(self, fraction: float, seed: int) -> tuple[Corpus, Corpus]:
        """→ (to train on, held out): whole documents, that fraction of the tokens held out.

        Documents are drawn at random, and one that would make it more than the fraction is passed
        over; where all would, the smallest is held out.

        Raises:
            InputError: a single document, or a fraction outside of 0 … 1.
        """
        if not 0 < fraction < 1:
            raise InputError(
                f"{fraction} of a text cannot be held out; take a number between 0 and 1"
            )
        if self.n_documents < 2:
            raise InputError(
                f"the corpus in {self.folder} is a single document, and none can be held out; "
                "put blank lines between documents, give more files, or --held_out 0"
            )
        lengths = self.document_lengths
        order = np.random.default_rng(seed).permutation(self.n_documents)
        wanted = missing = fraction * self.n_tokens
        held = []
        for d in order:
            if lengths[d] <= missing:
                held.append(d)
                missing -= lengths[d]
            if missing < 0.05 * wanted:
                break
        out = np.zeros(self.n_documents, bool)
        out[held or [lengths.argmin()]] = True
        numbers = np.arange(self.n_documents) if self.part is None else self.part
        return Corpus(self.folder, numbers[~out]), Corpus(self.folder, numbers[out])


def unigram_entropy(corpus: Corpus) -> float:
    """−Σ p log p of the tokens' frequencies p in the corpus, in nats per token.

    The loss, at a masked token, of a model that knows the frequencies and nothing else.
    """
    counts = np.zeros(1, np.int64)
    for d in range(corpus.n_documents):
        starts = corpus.starts(d)
        for begin in range(int(starts[0]), int(starts[-1]), READ):
            part = np.bincount(corpus.ids[begin : min(begin + READ, int(starts[-1]))])
            if len(part) > len(counts):
                counts = np.pad(counts, (0, len(part) - len(counts)))
            counts[: len(part)] += part
    p = counts[counts > 0] / counts.sum()
    return math.fsum(-p * np.log(p))
