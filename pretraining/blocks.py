"""Text files → token ids, block by block, in several processes."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing import Pool
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pretraining.sentences import split_sentences
from tokenizer import BertTokenizer
from training.files.errors import InputError, trouble_in_one_line

# Books print quotes and dashes that people do not type. A model that has seen only those would meet
# "n't" and "'s" for the first time in the data of its tasks.
AS_TYPED = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "--", "…": "..."})
BLOCK = 1 << 18  # bytes of text that one task encodes
LONGEST_SENTENCE = 512  # tokens; a longer one is cut

# A corpus has one number of 32 bits for each token: the token's id and two marks.
SENTENCE, DOCUMENT = np.uint32(1 << 30), np.uint32(1 << 31)  # one begins at this token
ID = SENTENCE - np.uint32(1)  # the bits of the id


class Encoded(NamedTuple):
    """The tokens of a block of text."""

    path: Path
    size: int  # bytes of text
    tokens: np.ndarray  # (T,) uint32, with their marks
    ends_document: bool  # a blank line follows the last sentence
    bad_lines: int  # lines that are not UTF-8


def text_files(sources: Sequence[str | Path]) -> list[Path]:
    """The files named and, for a folder, the *.txt in it and below it, sorted; each file once.

    Raises InputError if there is none, or if one cannot be read or is not text.
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
        reading = trouble_in_one_line("check the file", f"cannot read {path}: ")
        with reading, open(path, "rb") as file:
            if b"\0" in file.read(BLOCK):
                raise InputError(f"{path} is not text in UTF-8 (it holds NUL bytes); convert it")
    return files


def read_blocks(path: Path) -> Iterator[bytes]:
    """A file's text in blocks of about BLOCK bytes, cut between lines, or else at a space."""
    with open(path, encoding="latin-1") as file:  # a character a byte; \r and \r\n become \n
        rest = ""
        while text := file.read(BLOCK):
            text = rest + text
            end = text.rfind("\n") + 1 or text.rfind(" ") + 1
            if end:
                yield text[:end].encode("latin-1")
            rest = text[end:]
        yield rest.encode("latin-1")


def encode_block(task: tuple[Path, bytes], tokenizer: BertTokenizer) -> Encoded:
    """Split a block of text into sentences, and those into tokens."""
    path, text = task
    parts = [np.zeros(0, np.uint32)]
    ends_document, bad_lines = False, 0
    for raw in text.removesuffix(b"\n").split(b"\n") if text else ():
        line = raw.decode(errors="replace")
        bad_lines += line.count("\ufffd") > raw.count("\ufffd".encode())
        ends_document = ends_document or not line.strip()
        for sentence in split_sentences(line):
            ids = tokenizer.text_to_ids(sentence.translate(AS_TYPED))
            for start in range(0, len(ids), LONGEST_SENTENCE):
                part = np.array(ids[start : start + LONGEST_SENTENCE], np.uint32)
                part[0] |= SENTENCE | DOCUMENT if ends_document else SENTENCE
                ends_document = False
                parts.append(part)
    return Encoded(path, len(text), np.concatenate(parts), ends_document, bad_lines)


_worker: dict[str, BertTokenizer] = {}  # a worker's tokenizer, sent once, not with every block


def _begin_worker(tokenizer: BertTokenizer) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    _worker["tokenizer"] = tokenizer


def _encode_in_worker(task: tuple[Path, bytes]) -> Encoded:
    return encode_block(task, _worker["tokenizer"])


def encode_files(
    files: Iterable[Path], tokenizer: BertTokenizer, workers: int = 0
) -> Iterator[Encoded]:
    """The blocks of all files, in order.

    Args:
        workers: processes that tokenize; 0 for one a core, 1 for this one alone.
    """
    tasks = ((path, text) for path in files for text in read_blocks(path))
    if workers == 1:
        yield from (encode_block(task, tokenizer) for task in tasks)
        return
    with Pool(workers or None, _begin_worker, (tokenizer,)) as pool:
        yield from pool.imap(_encode_in_worker, tasks)  # a full pipe stops the reading
