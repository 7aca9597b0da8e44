"""Plain text → word pieces on disk: a corpus that may be larger than memory.

Text files, a paragraph a line and a blank line between documents, are split into sentences; each
sentence is tokenized once, in several processes, and streamed into three memory-mapped files:

    ids.bin          the word pieces of all sentences, one after the other (uint16 or int32)
    sentences.bin    where each sentence begins in ids.bin (int64, one more than there are)
    documents.bin    at which sentence each document begins (int64, one more than there are)
    corpus.json      what it was made of, how large it is, and the hashes; written last

This file does not know about masks, models or training.
"""

from __future__ import annotations

import hashlib
import json
import math
import multiprocessing
import os
import re
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from filelock import FileLock
from tqdm import tqdm

from tokenizer import BertTokenizer
from training.files.errors import InputError, first_line
from training.files.writing import atomic_write, sha256_of, write_json
from training.loop.processes import on_main_process

# Books print quotes and dashes that people do not type: a model that has seen only those would meet
# "n't" and "'s" for the first time in the data of its tasks.
AS_TYPED = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "--", "…": "..."})
VERSION = 2  # of these files and of how text is cut; another one is built again
DATA_FILES = ("ids.bin", "sentences.bin", "documents.bin")
BLOCK = 1 << 18  # bytes of text that one task reads; a longer line is cut into several paragraphs
LONGEST_SENTENCE = 512  # word pieces; what goes on without a full stop for longer is cut
READ = 1 << 22  # ids that are counted at a time

# ---------------------------------------------------------------------------------------------
# Sentences

_OPENING, _CLOSING = "\"'“‘«([*_—", "\"'”’»)\\]*_"
# A run of marks, closing quotes, white space, opening quotes and the next letter or digit. The
# possessive quantifiers and the look-behind keep it linear on any text.
_SENTENCE_END = re.compile(
    rf"(?<![.!?…])([.!?…]++)([{_CLOSING}]*+)\s++(?=[{re.escape(_OPENING)}]*+([^\W_]))"
)
_DOTTED = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]")  # J.R, U.S, e.g (its last dot is the mark)
_TITLES = frozenset(  # a name follows them, or the same sentence goes on
    "mr mrs ms messrs mm mme mlle dr st ste prof rev hon gen col capt lt sgt maj cpl gov sen rep "
    "pres supt sr jr esq mt ft vs viz cf etc inc ltd co corp jan feb mar apr aug sept oct nov dec"
    "".split()
)
_COUNTED = frozenset("no nos vol vols p pp fig figs ch chap sec art ed op".split())  # then a number


def split_sentences(text: str) -> list[str]:
    """The sentences of a paragraph, by rule.

    A sentence ends with . ! ? or …, closing quotes after it, white space, and then a capital
    letter or a digit; not after a title (Mr. Smith), an initial (J. Smith), a dotted abbreviation
    (U.S. Army; but a.m. and p.m. may end one), "No." before a number, or a number that a
    paragraph begins with ("1. Origins"). What somebody exclaims before a name ("Oh!" Anne said) is
    split where a reader would not: without the meaning the two cannot be told apart.
    """
    sentences, start = [], 0
    for match in _SENTENCE_END.finditer(text):
        mark, closing, following = match.groups()
        if following.isalpha() and following.lower() == following != following.upper():
            continue  # goes on with a small letter
        if mark == "." and not closing:
            before = text[max(start, match.start() - 32) : match.start()].split()
            word = before[-1].lstrip(_OPENING) if before else ""
            if _is_abbreviation(word, following):
                continue
            if word.isdigit() and len(before) == 1 and match.start() - start < 32:
                continue  # a number alone counts what follows
        sentences.append(text[start : match.end()].strip())
        start = match.end()
    sentences.append(text[start:].strip())
    return [sentence for sentence in sentences if sentence]


def _is_abbreviation(word: str, following: str) -> bool:
    """Whether the full stop after ``word`` ends no sentence; ``following``: the next character."""
    small = word.lower()
    if small in _TITLES or (len(word) == 1 and word.isupper() and word != "I"):
        return True
    if _DOTTED.fullmatch(word):
        return small not in ("a.m", "p.m")
    return small in _COUNTED and following.isdigit()


# ---------------------------------------------------------------------------------------------
# Text files → blocks → ids


class Source(NamedTuple):
    """A text file as corpus.json remembers it."""

    file: str
    bytes: int
    sha256: str


class Block(NamedTuple):
    """Whole lines of a file, or a part of an enormous one."""

    source: int  # the number of the file
    line: int  # the number of the first line
    goes_on: bool  # the first line began in the block before
    last: bool  # the file, and so the document, ends here
    text: bytes


class Encoded(NamedTuple):
    """What comes out of a block."""

    ids: np.ndarray  # (T,) of all its sentences
    lengths: np.ndarray  # (S,) int64, of the sentences
    ends: list[int]  # after how many of these sentences a document ended
    replaced: int  # bytes or runs of them that are no UTF-8
    first_bad: int  # the line of the first one, or 0
    cut: int  # sentences that were longer than LONGEST_SENTENCE


def text_files(sources: Sequence[str | Path]) -> list[Path]:
    """The files named, and in place of folders the *.txt in and below them, sorted; each once."""
    found: list[Path] = []
    for source in map(Path, sources):
        if source.is_dir():
            inside = sorted(path for path in source.rglob("*.txt") if path.is_file())
            if not inside:
                raise InputError(f"{source} holds no *.txt file; name a folder of text, or files")
            found += inside
        elif source.is_file():
            found.append(source)
        else:
            raise InputError(f"{source}: no such file or folder; check the path of the text")
    return list({path.resolve(): path for path in found}.values())


def checked_files(sources: Sequence[str | Path]) -> list[Path]:
    """text_files, each of which can be read and holds text."""
    files = text_files(sources)
    for path in files:
        _check_text(path)
    return files


def _check_text(path: Path) -> None:
    try:
        with open(path, "rb") as file:
            if b"\0" in file.read(BLOCK):
                raise InputError(f"{path} is no text in UTF-8 (it holds NUL bytes); convert it")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error


def _source(path: Path) -> Source:
    _check_text(path)
    try:
        return Source(str(path), path.stat().st_size, sha256_of(path))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error


def read_blocks(files: Sequence[Path]) -> Iterator[Block]:
    """The text of all files in blocks of at most BLOCK bytes, cut at line ends where there are.

    A line that fills a block by itself is cut at its last space, or failing that between two
    characters, so that memory does not depend on the text.
    """
    for number, path in enumerate(files):
        with open(path, "rb") as file:
            line, goes_on, text = 1, False, file.read(BLOCK)
            while text:
                more = file.read(1) if len(text) == BLOCK else b""
                end = len(text) if not more else _where_to_cut(text)
                block, rest = text[:end], text[end:] + more
                yield Block(number, line, goes_on, not more, block)
                line += block.count(b"\n")
                goes_on = not block.endswith(b"\n")
                text = rest + file.read(BLOCK - len(rest)) if rest else b""


def _where_to_cut(text: bytes) -> int:
    """How much of a full block to take: up to a line's end, a space or a character's beginning."""
    end = text.rfind(b"\n") + 1 or text.rfind(b" ") + 1
    if end:
        return end
    for back in range(1, 4):
        byte = text[-back]
        if byte & 0xC0 != 0x80:  # a character of UTF-8 begins here
            size = 1 + (byte >= 0xC0) + (byte >= 0xE0) + (byte >= 0xF0)
            return len(text) - back if size > back else len(text)
    return len(text)


def encode_block(block: Block, tokenizer: BertTokenizer) -> Encoded:
    """Split a block into sentences and those into word pieces."""
    ids: list[int] = []
    lengths: list[int] = []
    ends: list[int] = []
    replaced = first_bad = cut = 0
    for number, raw in enumerate(block.text.removesuffix(b"\n").split(b"\n")):
        try:
            line = raw.decode()
        except UnicodeDecodeError:
            line = raw.decode(errors="replace")
            replaced += line.count("\ufffd") - raw.count("\ufffd".encode())
            first_bad = first_bad or block.line + number
        if not line.strip():
            if not (block.goes_on and number == 0):
                ends.append(len(lengths))
            continue
        for sentence in split_sentences(line):
            pieces = tokenizer.text_to_ids(sentence.translate(AS_TYPED))
            cut += len(pieces) > LONGEST_SENTENCE
            for start in range(0, len(pieces), LONGEST_SENTENCE):
                part = pieces[start : start + LONGEST_SENTENCE]
                ids += part
                lengths.append(len(part))
    if block.last:
        ends.append(len(lengths))
    kind = id_type(tokenizer.vocab_size)
    return Encoded(np.array(ids, kind), np.array(lengths, np.int64), ends, replaced, first_bad, cut)


def id_type(vocab_size: int) -> np.dtype:
    """The smallest type that takes every id."""
    return np.dtype(np.uint16 if vocab_size <= 1 << 16 else np.int32)


# In a worker: its tokenizer, set once, so that it is not sent with every block.
_worker: dict[str, BertTokenizer] = {}


def _begin_worker(pieces: list[str], lower_case: bool) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _worker["tokenizer"] = BertTokenizer(pieces, lower_case)


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for work for ever."""
    multiprocessing.parent_process().join()
    os._exit(1)


def _encode_in_worker(block: Block) -> Encoded:
    return encode_block(block, _worker["tokenizer"])


def encode_blocks(
    blocks: Iterable[Block], tokenizer: BertTokenizer, workers: int
) -> Iterator[tuple[Block, Encoded]]:
    """Each block and what it became, in order; never more than two blocks a worker under way."""
    if workers == 1:
        yield from ((block, encode_block(block, tokenizer)) for block in blocks)
        return
    settings = (tokenizer.pieces, tokenizer.lower_case)
    waiting: deque = deque()
    with ProcessPoolExecutor(workers, initializer=_begin_worker, initargs=settings) as pool:
        try:
            for block in blocks:
                waiting.append((block, pool.submit(_encode_in_worker, block)))
                if len(waiting) > 2 * workers:
                    first, future = waiting.popleft()
                    yield first, future.result()
            while waiting:
                first, future = waiting.popleft()
                yield first, future.result()
        except BrokenProcessPool:
            raise InputError(
                "a process that tokenizes was killed, for want of memory perhaps; "
                "stop other programs and try again"
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


def usable_cores() -> int:
    """How many cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# ---------------------------------------------------------------------------------------------
# Building


def build(
    sources: Sequence[str | Path],
    tokenizer: BertTokenizer,
    folder: str | Path,
    workers: int = 0,
    limit: int | None = None,
) -> Corpus:
    """The corpus of these texts in ``folder``: the one that is there, verified, or a new one.

    A file's end ends a document, as a blank line does. Bytes that are no UTF-8 are replaced and
    reported, files without text are left out and named. The result does not depend on ``workers``.

    Args:
        sources: text files, and folders whose *.txt are taken.
        tokenizer: whose pieces; a corpus made with another one is built again.
        workers: processes that tokenize; 0 for one a core, 1 for this one alone.
        limit: stop after that many sentences.

    Raises:
        InputError: no such file, no text in them, or a folder that cannot be written.
    """
    folder = Path(folder)
    if limit is not None and limit < 1:
        raise InputError(f"a corpus of {limit} sentences is none; give a limit of at least 1")

    def work() -> None:
        files = text_files(sources)
        wanted = {
            "version": VERSION,
            "sources": [_source(path)._asdict() for path in files],
            "vocabulary": _vocabulary_hash(tokenizer),
            "limit": limit,
        }
        with _alone(folder):
            why = _why_anew(folder, wanted)
            if why:
                if why != "new":
                    print(f"corpus: {folder} is built again, {why}", flush=True)
                _write(folder, files, tokenizer, workers or usable_cores(), wanted)

    on_main_process(work)
    corpus = Corpus(folder)
    print(f"corpus: {corpus.describe()} in {folder}")
    return corpus


def _vocabulary_hash(tokenizer: BertTokenizer) -> str:
    text = f"{tokenizer.lower_case}\n" + "\n".join(tokenizer.pieces)
    return hashlib.sha256(text.encode()).hexdigest()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder: a second program that wants the same corpus waits, and finds it made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):
            yield
    except OSError as error:
        raise InputError(
            f"cannot write the corpus {folder}: {error.strerror or error}; choose another folder"
        ) from error


def _why_anew(folder: Path, wanted: dict[str, Any]) -> str:
    """Why what is in the folder cannot be used, 'new' where there is nothing, '' if it can."""
    if not (folder / "corpus.json").exists():
        return "new"
    try:
        found = read_description(folder)
        plain = found | {"sources": [source["sha256"] for source in found["sources"]]}
        hashes = [source["sha256"] for source in wanted["sources"]]
        for name, value, what in (
            ("version", wanted["version"], "it was made by another version"),
            ("sources", hashes, "the texts are other ones"),
            ("vocabulary", wanted["vocabulary"], "the vocabulary is another one"),
            ("limit", wanted["limit"], f"its limit was {found['limit']}"),
        ):
            if plain[name] != value:
                return what
        for name in DATA_FILES:
            if sha256_of(folder / name) != found["files"][name]["sha256"]:
                return f"{name} is damaged"
    except (InputError, OSError, KeyError, TypeError) as error:
        return f"what is there cannot be read ({first_line(error)})"
    return ""


def _write(
    folder: Path, files: list[Path], tokenizer: BertTokenizer, workers: int, wanted: dict[str, Any]
) -> None:
    """Stream all texts into the corpus files; corpus.json, which makes them count, comes last."""
    for left in folder.glob(".*.part"):  # of a build that was killed; this one is alone here
        left.unlink()
    limit = wanted["limit"]
    total = limit or sum(source["bytes"] for source in wanted["sources"])
    tokens = sentences = documents = replaced = cut = 0
    document_begin = 0  # the first sentence of the document that is being read
    first_bad = ""
    without_text = dict.fromkeys(range(len(files)))
    blocks = encode_blocks(read_blocks(files), tokenizer, workers)
    with ExitStack() as stack:
        outputs = [
            _Hashed(stack.enter_context(atomic_write(folder / name, "wb"))) for name in DATA_FILES
        ]
        ids_file, sentences_file, documents_file = outputs
        for file in (sentences_file, documents_file):
            file.write(np.zeros(1, np.int64))
        bar = stack.enter_context(_bar(total, "sentences" if limit else "B"))
        stack.callback(blocks.close)
        for block, encoded in blocks:
            lengths = encoded.lengths if limit is None else encoded.lengths[: limit - sentences]
            starts = tokens + np.cumsum(lengths)  # where the sentence after each begins
            if len(lengths):
                ids_file.write(encoded.ids[: starts[-1] - tokens])
                sentences_file.write(starts)
                without_text.pop(block.source, None)
                tokens = int(starts[-1])
            ends = [sentences + end for end in encoded.ends if end <= len(lengths)]
            sentences += len(lengths)
            if limit == sentences:
                ends.append(sentences)
            for end in ends:
                if end > document_begin:  # several blank lines are as good as one
                    documents_file.write(np.array([end], np.int64))
                    documents, document_begin = documents + 1, end
            if encoded.first_bad and not first_bad:
                first_bad = f"{files[block.source]}, line {encoded.first_bad}"
            replaced, cut = replaced + encoded.replaced, cut + encoded.cut
            bar.update(len(lengths) if limit else len(block.text))
            if limit == sentences:
                break
        if not sentences:
            raise InputError(
                f"no text in {', '.join(map(str, files[:3]))}{' …' if len(files) > 3 else ''}; "
                "give files with a paragraph a line"
            )
        (folder / "corpus.json").unlink(missing_ok=True)  # until the new files are there
    sizes = {"documents": documents, "sentences": sentences, "tokens": tokens}
    made = {
        name: {"bytes": file.bytes, "sha256": file.hash.hexdigest()}
        for name, file in zip(DATA_FILES, outputs, strict=True)
    }
    notes = {"replaced": replaced, "cut": cut}
    kind = {"type": id_type(tokenizer.vocab_size).name}
    write_json(folder / "corpus.json", wanted | sizes | kind | notes | {"files": made})

    if replaced:
        print(f"corpus: {replaced} places are no UTF-8 and were replaced; the first: {first_bad}")
    if cut:
        print(f"corpus: {cut} sentences were cut every {LONGEST_SENTENCE} word pieces")
    if without_text and limit is None:
        names = [str(files[number]) for number in without_text]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        print(f"corpus: {len(names)} files hold no text: {', '.join(names[:3])}{more}")


def _bar(total: int, unit: str) -> tqdm:
    """Progress with an estimate on a terminal, and nothing elsewhere."""
    return tqdm(total=total, desc="corpus", unit=unit, unit_scale=True, leave=False, disable=None)


class _Hashed:
    """A file that takes arrays, and hashes and counts what it is given."""

    def __init__(self, file: Any):
        self.file = file
        self.hash = hashlib.sha256()
        self.bytes = 0

    def write(self, array: np.ndarray) -> None:
        """Append the array's bytes."""
        data = np.ascontiguousarray(array).data
        self.file.write(data)
        self.hash.update(data)
        self.bytes += array.nbytes


# ---------------------------------------------------------------------------------------------
# Reading


def read_description(folder: str | Path) -> dict[str, Any]:
    """corpus.json; InputError where there is none or its files have other sizes."""
    folder = Path(folder)
    try:
        found = json.loads((folder / "corpus.json").read_text(encoding="utf-8"))
        for name in DATA_FILES:
            size, wanted = (folder / name).stat().st_size, found["files"][name]["bytes"]
            if size != wanted:
                raise ValueError(f"{name} has {size} bytes, not {wanted}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder} holds no whole corpus ({first_line(error)})") from error
    return found


class Corpus:
    """Documents of sentences of word pieces, read from disk as they are asked for.

    Sentences and documents are numbered from 0. A part of a corpus, as ``split`` makes it, numbers
    its own from 0 and is used in the same way. Only the place of the files is pickled.

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
        """All word pieces on disk, also those of other parts."""
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
    def _offsets(self) -> np.ndarray:
        """(documents + 1,) the number in this part of each document's first sentence."""
        documents = self._map("documents.bin", "int64")
        if self.part is None:
            return documents
        return np.concatenate([[0], np.cumsum(documents[self.part + 1] - self._firsts)])

    @property
    def n_documents(self) -> int:
        """How many documents there are."""
        return len(self._offsets) - 1

    @property
    def n_sentences(self) -> int:
        """How many sentences there are."""
        return int(self._offsets[-1])

    @cached_property
    def n_tokens(self) -> int:
        """How many word pieces there are."""
        return int(self.document_lengths.sum())

    @property
    def document_lengths(self) -> np.ndarray:
        """(documents,) int64: word pieces of each document."""
        return self._starts[self._firsts + np.diff(self._offsets)] - self._starts[self._firsts]

    @property
    def sentence_lengths(self) -> np.ndarray:
        """(sentences,) int64: word pieces of each sentence."""
        if self.part is None:
            return np.diff(self._starts)
        parts = [np.diff(self.starts(d)) for d in range(self.n_documents)]
        return np.concatenate(parts)

    def document(self, d: int) -> range:
        """The numbers of a document's sentences."""
        return range(int(self._offsets[d]), int(self._offsets[d + 1]))

    def sentence(self, i: int) -> np.ndarray:
        """The word pieces of a sentence, without [CLS] and [SEP]: (L,) uint16 or int32."""
        if not 0 <= i < self.n_sentences:
            raise IndexError(f"sentence {i} of {self.n_sentences}")
        d = int(np.searchsorted(self._offsets, i, side="right")) - 1
        place = int(self._firsts[d] + i - self._offsets[d])
        return self.ids[self._starts[place] : self._starts[place + 1]]

    def starts(self, d: int) -> np.ndarray:
        """Where in ``ids`` the sentences of a document begin, and where the last one ends."""
        first = int(self._firsts[d])
        return self._starts[first : first + len(self.document(d)) + 1]  # (sentences + 1,)

    def split(self, share: float, seed: int) -> tuple[Corpus, Corpus]:
        """→ (to train on, held out): whole documents, ``share`` of the word pieces held out.

        Documents are drawn by chance, and one that would make it more than the share is passed
        over; where all would, the smallest is held out.

        Raises:
            InputError: a single document, or a share outside of 0 … 1.
        """
        if not 0 < share < 1:
            raise InputError(f"a share of {share} cannot be held out; take one between 0 and 1")
        if self.n_documents < 2:
            raise InputError(
                f"the corpus in {self.folder} is one document, of which none can be held out; "
                "put blank lines between documents, give more files, or --held_out 0"
            )
        lengths = self.document_lengths
        order = np.random.default_rng(seed).permutation(self.n_documents)
        wanted, held, room = share * self.n_tokens, [], share * self.n_tokens
        for d in order:
            if lengths[d] <= room:
                held.append(d)
                room -= lengths[d]
            if room < 0.05 * wanted:
                break
        out = np.zeros(self.n_documents, bool)
        out[held or [lengths.argmin()]] = True
        numbers = np.arange(self.n_documents) if self.part is None else self.part
        return Corpus(self.folder, numbers[~out]), Corpus(self.folder, numbers[out])

    def describe(self) -> str:
        """One line for people."""
        return (
            f"{self.n_sentences:,} sentences, {self.n_tokens:,} word pieces, "
            f"{self.n_documents:,} documents"
        )


def unigram_entropy(corpus: Corpus) -> float:
    """−Σ p log p of the word pieces' frequencies p in the corpus, in nats a word piece.

    What a model that knows the frequencies and nothing else has to pay for a masked piece.
    """
    counts = np.zeros(1, np.int64)
    for d in range(corpus.n_documents):
        starts = corpus.starts(d)
        for begin in range(int(starts[0]), int(starts[-1]), READ):
            found = np.bincount(corpus.ids[begin : min(begin + READ, int(starts[-1]))])
            if len(found) > len(counts):
                counts = np.pad(counts, (0, len(found) - len(counts)))
            counts[: len(found)] += found
    share = counts[counts > 0] / counts.sum()
    return math.fsum(-share * np.log(share))
