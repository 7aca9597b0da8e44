"""A corpus: the token ids of a text in one memory-mapped file, which may be larger than memory.

Text files have a paragraph a line and a blank line between documents. Paragraphs are split into
sentences (sentences.py), and each sentence is tokenized once. FOLDER/corpus.bin has 32 bits for
each token: its id, and whether a sentence or a document begins there. FOLDER/corpus.json says what
the corpus was made from, so that it is used again until that changes.
"""

from __future__ import annotations

import math
import signal
import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import numpy as np

from pretraining.sentences import split_sentences
from tokenizer import BertTokenizer
from training.files.errors import InputError, trouble_in_one_line, values_of
from training.files.texts import read_json
from training.files.writing import atomic_write, check_writable, write_json
from training.loop.processes import on_main_process
from training.loop.progress import progress_bar

# Books print quotes and dashes that people do not type. A model that has seen only those would meet
# "n't" and "'s" for the first time in the data of its tasks.
AS_TYPED = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "--", "…": "..."})
BLOCK = 1 << 18  # characters that one task encodes
LONGEST_SENTENCE = 512  # tokens; a longer one is cut
SENTENCE = np.uint32(1 << 30)  # marks the first token of a sentence
BREAK = np.uint32(1 << 31)  # stands between two documents, in place of a token
DOCUMENT = BREAK  # in the file this bit marks the first token of a document
ID = SENTENCE - np.uint32(1)  # the bits of the id
READ = 1 << 22  # tokens that are searched for marks at a time

# ---------------------------------------------------------------------------------------------
# Text files → token ids, block by block, in several processes


def text_files(sources: Sequence[str | Path]) -> list[Path]:
    """The files named and, for a folder, the *.txt in it and below it, sorted; each file once.

    Raises InputError where there is none.
    """
    files: list[Path] = []
    for source in map(Path, sources):
        if source.is_dir():
            inside = sorted(path for path in source.rglob("*.txt") if path.is_file())
            if not inside:
                raise InputError(f"{source} holds no *.txt file; name a folder of text, or files")
            files += inside
        elif source.is_file():
            files.append(source)
        else:
            raise InputError(f"{source}: no such file or folder; check the path of the text")
    return list({path.resolve(): path for path in files}.values())


def read_blocks(path: Path) -> Iterator[str]:
    """A file's text in blocks of about BLOCK characters, cut between lines, or else at a space.

    The first begins with an empty line, because a file begins a document. InputError where the file
    cannot be read or is not in UTF-8.
    """
    readable = trouble_in_one_line("check the file", f"cannot read {path}: ")
    with readable, values_of(f"{path} is not text in UTF-8", "convert it"):
        with open(path, encoding="utf-8") as file:
            rest = "\n"
            while len(read := file.read(BLOCK)) == BLOCK:
                text = rest + read
                # between words: a part of a line that is blank would end the document
                first = len(text) - len(text.lstrip())
                end = text.rfind("\n", 1) + 1 or text.rstrip().rfind(" ", first) + 1
                yield text[:end]
                rest = text[end:]
            yield rest + read


def encode_block(text: str, tokenizer: BertTokenizer) -> np.ndarray:
    """Split a block of text into sentences, and those into tokens.

    → (T,) uint32: ids, the first of each sentence with the bit SENTENCE, and BREAKs.
    """
    parts = [np.zeros(0, np.uint32)]
    for line in text.removesuffix("\n").split("\n") if text else ():
        if not line.strip():
            parts.append(np.array([BREAK]))
        for sentence in split_sentences(line):
            ids = tokenizer.text_to_ids(sentence.translate(AS_TYPED))
            for start in range(0, len(ids), LONGEST_SENTENCE):
                parts.append(np.array(ids[start : start + LONGEST_SENTENCE], np.uint32))
                parts[-1][0] |= SENTENCE
    return np.concatenate(parts)


def encode_files(files: Iterable[Path], tokenizer: BertTokenizer) -> Iterator[np.ndarray]:
    """The tokens of all files, block by block in order; a process for each core makes them."""
    texts = (text for path in files for text in read_blocks(path))
    # Ctrl-C is for the parent
    with Pool(initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN)) as pool:
        # a full pipe stops the reading
        yield from pool.imap(partial(encode_block, tokenizer=tokenizer), texts)


# ---------------------------------------------------------------------------------------------
# Token ids → a corpus


def build(sources: Sequence[str | Path], tokenizer: BertTokenizer, folder: str | Path) -> Corpus:
    """The corpus of text files, and of folders with *.txt; one made from the same is used again."""
    file, description = Path(folder) / "corpus.bin", Path(folder) / "corpus.json"

    def work() -> None:
        files = text_files(sources)
        check_writable(folder)
        made_from = {
            "texts": [[str(p.resolve()), p.stat().st_size, p.stat().st_mtime_ns] for p in files],
            "vocabulary": zlib.crc32(repr((tokenizer.lower_case, tokenizer.pieces)).encode()),
        }
        if file.is_file() and description.is_file() and read_json(description) == made_from:
            return
        description.unlink(missing_ok=True)  # until the new file is there
        _write(file, files, tokenizer)
        write_json(description, made_from)

    on_main_process(work)
    corpus = Corpus(file)
    print(
        f"corpus: {corpus.n_sentences:,} sentences, {corpus.n_tokens:,} tokens, "
        f"{corpus.n_documents:,} documents in {folder}"
    )
    return corpus


def _write(file: Path, files: list[Path], tokenizer: BertTokenizer) -> None:
    """Stream the texts into a corpus file."""
    after_break = False
    count = sum(path.stat().st_size // BLOCK + 2 for path in files)
    with atomic_write(file, "wb") as out:
        for tokens in progress_bar(encode_files(files, tokenizer), "corpus", total=count):
            if not len(tokens):
                continue
            is_break = tokens == BREAK
            begins = np.append(after_break, is_break[:-1])
            out.write(np.where(begins, tokens | DOCUMENT, tokens)[~is_break].data)
            after_break = is_break[-1]
        if not out.tell():
            raise InputError(f"no text in {files[0]}, …; give files with a paragraph a line")


# ---------------------------------------------------------------------------------------------
# Reading it


class Corpus:
    """Documents of sentences of token ids, read from disk as they are asked for.

    Args:
        part: the numbers of the documents that count, in rising order; None for all. A part
            numbers its documents from 0 again.
    """

    def __init__(self, file: str | Path, part: np.ndarray | None = None):
        self.file, self.part = Path(file), part
        self.tokens = np.memmap(file, np.uint32, "r")  # (T,), ids with their marks
        self._sentences = np.append(self._marked(SENTENCE), len(self.tokens))  # where each begins
        documents = np.append(self._marked(DOCUMENT), len(self.tokens))
        firsts = np.searchsorted(self._sentences, documents)  # each document's first sentence
        chosen = slice(None) if part is None else part
        self._firsts, self._lasts = firsts[:-1][chosen], firsts[1:][chosen]  # (documents,) each
        self.document_ends = self._sentences[self._lasts]  # (documents,), after the last token
        self.document_lengths = self.document_ends - self._sentences[self._firsts]
        self.n_documents, self.n_tokens = len(self._firsts), int(self.document_lengths.sum())
        self.n_sentences = int((self._lasts - self._firsts).sum())

    def __reduce__(self) -> tuple[Any, ...]:
        return Corpus, (self.file, self.part)  # another process maps the file again

    def _marked(self, mark: np.uint32) -> np.ndarray:
        """The positions of the tokens with that mark."""
        blocks = range(0, len(self.tokens), READ)
        return np.concatenate(
            [i + np.flatnonzero(self.tokens[i : i + READ] & mark) for i in blocks]
        )

    def starts(self, d: int) -> np.ndarray:
        """The positions where a document's sentences begin, and where the last one ends."""
        return self._sentences[self._firsts[d] : self._lasts[d] + 1]  # (sentences + 1,)

    def ids(self, positions: Any) -> np.ndarray:
        """The token ids at these positions, a slice or an array: uint32."""
        return self.tokens[positions] & ID

    def split(self, fraction: float, seed: int) -> tuple[Corpus, Corpus]:
        """A whole corpus → (to train on, held out): documents with that fraction of the tokens.

        Documents are drawn at random. One that would exceed the fraction is passed over; if all
        would, the smallest is held out. InputError if there is a single document.
        """
        if self.n_documents < 2:
            remedy = "put blank lines between documents, or give more files"
            raise InputError(f"the corpus in {self.file.parent} is a single document; {remedy}")
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
        return tuple(Corpus(self.file, np.flatnonzero(part)) for part in (~is_held, is_held))

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
