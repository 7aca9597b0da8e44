"""Text files → blocks of lines → token ids, in several processes.

Memory does not depend on how large a file, or a line, is.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pretraining.sentences import split_sentences
from tokenizer import BertTokenizer
from training.files.errors import InputError, trouble_in_one_line

# Books print quotes and dashes that people do not type: a model that has seen only those would meet
# "n't" and "'s" for the first time in the data of its tasks.
AS_TYPED = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "--", "…": "..."})
BLOCK = 1 << 18  # bytes of text that one task reads; a longer line is cut into several paragraphs
LONGEST_SENTENCE = 512  # tokens; what goes on without a full stop for longer is cut


class Block(NamedTuple):
    """Whole lines of a file, or a part of an enormous one."""

    source: int  # the number of the file
    line: int  # the number of the first line
    goes_on: bool  # the first line began in the block before
    last: bool  # the file, and so the document, ends here
    text: bytes


class Encoded(NamedTuple):
    """The sentences of a block as ids."""

    ids: np.ndarray  # (T,) of all its sentences
    lengths: np.ndarray  # (S,) int64, of the sentences
    ends: list[int]  # after how many of these sentences a document ended
    replaced: int  # bytes, or runs of them, that are not UTF-8
    first_bad: int  # the line of the first of them, or 0
    cut: int  # sentences that were longer than LONGEST_SENTENCE


def text_files(sources: Sequence[str | Path]) -> list[Path]:
    """The files named, and in place of folders the *.txt in and below them, sorted; each once.

    Raises InputError where there is none, or where one cannot be read or is not text.
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
    files = list({path.resolve(): path for path in files}.values())
    for path in files:
        with (
            trouble_in_one_line("check the file", f"cannot read {path}: "),
            open(path, "rb") as file,
        ):
            if b"\0" in file.read(BLOCK):
                raise InputError(f"{path} is not text in UTF-8 (it holds NUL bytes); convert it")
    return files


def read_blocks(files: Sequence[Path]) -> Iterator[Block]:
    """The text of all files in blocks of at most BLOCK bytes, cut at line ends where there are.

    A line that fills a block by itself is cut at its last space, or failing that between two
    characters, so that memory does not depend on the text.
    """
    for number, path in enumerate(files):
        with open(path, encoding="latin-1") as file:  # a character a byte; \r and \r\n are \n
            line, goes_on, text = 1, False, file.read(BLOCK).encode("latin-1")
            while text:
                more = file.read(1).encode("latin-1") if len(text) == BLOCK else b""
                end = len(text) if not more else _where_to_cut(text)
                block, rest = text[:end], text[end:] + more
                yield Block(number, line, goes_on, not more, block)
                line += block.count(b"\n")
                goes_on = not block.endswith(b"\n")
                text = rest + file.read(BLOCK - len(rest)).encode("latin-1") if rest else b""


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
    """Split a block into sentences, and those into tokens."""
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
            tokens = tokenizer.text_to_ids(sentence.translate(AS_TYPED))
            cut += len(tokens) > LONGEST_SENTENCE
            for start in range(0, len(tokens), LONGEST_SENTENCE):
                part = tokens[start : start + LONGEST_SENTENCE]
                ids += part
                lengths.append(len(part))
    if block.last:
        ends.append(len(lengths))
    kind = id_type(tokenizer.vocab_size)
    return Encoded(np.array(ids, kind), np.array(lengths, np.int64), ends, replaced, first_bad, cut)


def id_type(vocab_size: int) -> np.dtype:
    """The smallest type that holds every id."""
    return np.dtype(np.uint16 if vocab_size <= 1 << 16 else np.int32)


# In a worker: its tokenizer, set once rather than sent with every block
_worker: dict[str, BertTokenizer] = {}


def _begin_worker(pieces: list[str], lower_case: bool) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _worker["tokenizer"] = BertTokenizer(pieces, lower_case)


def _end_with_parent() -> None:
    """End a worker whose parent was killed: it would wait for work for ever."""
    multiprocessing.parent_process().join()
    os._exit(1)


def _encode_in_worker(block: Block) -> Encoded:
    return encode_block(block, _worker["tokenizer"])


def encode_blocks(
    blocks: Iterable[Block], tokenizer: BertTokenizer, workers: int
) -> Iterator[tuple[Block, Encoded]]:
    """Each block and its ids, in order; at most two blocks a worker are under way."""
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
                "a process that tokenizes was killed, perhaps for lack of memory; "
                "stop other programs and try again"
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


def usable_cores() -> int:
    """How many cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
