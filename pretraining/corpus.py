"""A corpus: the token ids of a text in one memory-mapped file, which may be larger than memory.

Text files have a paragraph a line and a blank line between documents. Paragraphs are split into
sentences (sentences.py), and each sentence is tokenized once (blocks.py). FOLDER/corpus.bin has 32
bits for each token: its id, and whether a sentence or a document begins there. FOLDER/corpus.json
says what the corpus was made from, so that it is used again until that changes.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from pretraining.blocks import (
    DOCUMENT,
    ID,
    SENTENCE,
    encode_files,
    text_files,
)
from tokenizer import BertTokenizer
from training.files.errors import InputError
from training.files.texts import read_json
from training.files.writing import atomic_write, write_json
from training.loop.processes import on_main_process

READ = 1 << 22  # tokens that are searched for marks at a time

# ---------------------------------------------------------------------------------------------
# Text files → a corpus


def build(
    sources: Sequence[str | Path],
    tokenizer: BertTokenizer,
    folder: str | Path,
    workers: int = 0,
    limit: int | None = None,
) -> Corpus:
    """The corpus of these texts in ``folder``; a corpus made from the same is used again.

    A document ends at a blank line and at the end of a file. Bytes that are not UTF-8 are replaced.
    The result does not depend on ``workers``.

    Args:
        sources: text files, and folders whose *.txt are taken.
        workers: processes that tokenize; see ``encode_files``.
        limit: take only the first ``limit`` sentences.

    Raises:
        InputError: no such file, no text in them, or a folder that cannot be written.
    """
    folder = Path(folder)
    file, description = folder / "corpus.bin", folder / "corpus.json"

    def work() -> None:
        files = text_files(sources)
        made_from = {
            "texts": [[str(p.resolve()), p.stat().st_size, p.stat().st_mtime_ns] for p in files],
            "vocabulary": zlib.crc32(repr((tokenizer.lower_case, tokenizer.pieces)).encode()),
            "limit": limit,
        }
        if file.is_file() and description.is_file() and read_json(description) == made_from:
            return
        description.unlink(missing_ok=True)  # until the new file is there
        _write(file, files, tokenizer, workers, limit)
        write_json(description, made_from)

    on_main_process(work)
    corpus = Corpus(file)
    print(
        f"corpus: {corpus.n_sentences:,} sentences, {corpus.n_tokens:,} tokens, "
        f"{corpus.n_documents:,} documents in {folder}"
    )
    return corpus


def _write(
    file: Path, files: list[Path], tokenizer: BertTokenizer, workers: int, limit: int | None
) -> None:
    """Stream the texts into a corpus file."""
    path, begins_document, written, bad_lines = None, True, 0, Counter()
    missing = math.inf if limit is None else limit
    size = sum(path.stat().st_size for path in files)
    bar = tqdm(total=size, desc="corpus", unit="B", unit_scale=True, leave=False, disable=None)
    with atomic_write(file, "wb") as out, bar:
        for block in encode_files(files, tokenizer, workers):
            begins_document = begins_document or block.path != path
            path, tokens = block.path, block.tokens
            begins = np.flatnonzero(tokens & SENTENCE)
            if len(begins) > missing:
                tokens = tokens[: begins[missing]]
            if len(tokens) and begins_document:
                tokens[0] |= DOCUMENT
            begins_document = block.ends_document or (begins_document and not len(tokens))
            out.write(tokens.data)
            missing, written = missing - len(begins), written + len(tokens)
            bad_lines[path] += block.bad_lines
            bar.update(block.size)
            if missing <= 0:
                break
        if not written:
            raise InputError(f"no text in {files[0]}, …; give files with a paragraph a line")
    if bad_lines.total():
        (worst, _), *others = bad_lines.most_common()
        more = f" and {len(others)} more files" if others else ""
        print(f"corpus: {bad_lines.total()} lines of {worst}{more} are not UTF-8: bytes lost")


# ---------------------------------------------------------------------------------------------
# Reading it


class Corpus:
    """Documents of sentences of token ids, read from disk as they are asked for.

    Args:
        file: what ``build`` wrote.
        part: the numbers of the documents that count, in rising order; None for all. A part
            numbers its documents from 0 again.
    """

    def __init__(self, file: str | Path, part: np.ndarray | None = None):
        self.file, self.part = Path(file), part
        self.tokens = np.memmap(file, np.uint32, "r")  # (T,), ids with their marks
        self._sentences = np.append(self._marked(SENTENCE), len(self.tokens))  # where each begins
        documents = np.append(self._marked(DOCUMENT), len(self.tokens))
        numbers = np.searchsorted(self._sentences, documents)  # of each document's first sentence
        chosen = slice(None) if part is None else part
        self._firsts, self._lasts = numbers[:-1][chosen], numbers[1:][chosen]  # (documents,) each

    def __reduce__(self) -> tuple[Any, ...]:
        return Corpus, (self.file, self.part)  # another process maps the file again

    def _marked(self, mark: np.uint32) -> np.ndarray:
        """The positions of the tokens with that mark."""
        blocks = range(0, len(self.tokens), READ)
        return np.concatenate(
            [i + np.flatnonzero(self.tokens[i : i + READ] & mark) for i in blocks]
        )

    @property
    def n_documents(self) -> int:
        """How many documents there are."""
        return len(self._firsts)

    @property
    def n_sentences(self) -> int:
        """How many sentences there are."""
        return int((self._lasts - self._firsts).sum())

    @property
    def n_tokens(self) -> int:
        """How many tokens there are."""
        return int(self.document_lengths.sum())

    @cached_property
    def document_lengths(self) -> np.ndarray:
        """(documents,) int64: the tokens of each document."""
        return self.document_ends - self._sentences[self._firsts]

    @cached_property
    def document_ends(self) -> np.ndarray:
        """(documents,) int64: the position after the last token of each document."""
        return self._sentences[self._lasts]

    def starts(self, d: int) -> np.ndarray:
        """The positions where a document's sentences begin, and where the last one ends."""
        return self._sentences[self._firsts[d] : self._lasts[d] + 1]  # (sentences + 1,)

    def ids(self, positions: Any) -> np.ndarray:
        """The token ids at these positions, a slice or an array: uint32."""
        return self.tokens[positions] & ID

    def split(self, fraction: float, seed: int) -> tuple[Corpus, Corpus]:
        """→ (to train on, held out): whole documents, that fraction of the tokens held out.

        Documents are drawn at random. One that would exceed the fraction is passed over; if all
        would, the smallest is held out.

        Raises:
            InputError: there is a single document.
        """
        if self.n_documents < 2:
            raise InputError(
                f"the corpus in {self.file.parent} is a single document, and none can be held out; "
                "put blank lines between documents, give more files, or --held_out 0"
            )
        lengths = self.document_lengths
        wanted = missing = fraction * self.n_tokens
        held = []
        for d in np.random.default_rng(seed).permutation(self.n_documents):
            if lengths[d] <= missing:
                held.append(d)
                missing -= lengths[d]
            if missing < 0.05 * wanted:
                break
        is_held = np.zeros(self.n_documents, bool)
        is_held[held or [lengths.argmin()]] = True
        numbers = np.arange(self.n_documents) if self.part is None else self.part
        return Corpus(self.file, numbers[~is_held]), Corpus(self.file, numbers[is_held])

    def checksum(self) -> int:
        """A number that another text would hardly have, by which a resumed run knows its own."""
        return zlib.crc32(self.tokens)


def unigram_entropy(corpus: Corpus) -> float:
    """−Σ p log p of the tokens' frequencies p in a (held-out) corpus, in nats per token.

    The loss, at a masked token, of a model that knows the frequencies and nothing else.
    """
    starts = map(corpus.starts, range(corpus.n_documents))
    counts = np.bincount(np.concatenate([corpus.ids(slice(s[0], s[-1])) for s in starts]))
    p = counts[counts > 0] / counts.sum()
    return math.fsum(-p * np.log(p))
