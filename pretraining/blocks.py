"""Text files → token ids, block by block, in several processes."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing import Pool
from pathlib import Path

import numpy as np

from pretraining.sentences import split_sentences
from tokenizer import BertTokenizer
from training.files.errors import InputError, trouble_in_one_line, values_of

# Books print quotes and dashes that people do not type. A model that has seen only those would meet
# "n't" and "'s" for the first time in the data of its tasks.
AS_TYPED = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "--", "…": "..."})
BLOCK = 1 << 18  # characters that one task encodes
LONGEST_SENTENCE = 512  # tokens; a longer one is cut
SENTENCE = np.uint32(1 << 30)  # marks the first token of a sentence
BREAK = np.uint32(1 << 31)  # stands between two documents, in place of a token


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
            while text := file.read(BLOCK):
                text = rest + text
                end = text.rfind("\n", 1) + 1 or text.rfind(" ") + 1
                yield text[:end]
                rest = text[end:]
            yield rest


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


_worker: dict[str, BertTokenizer] = {}  # a worker's tokenizer, sent once, not with every block


def _begin_worker(tokenizer: BertTokenizer) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    _worker["tokenizer"] = tokenizer


def _encode_in_worker(text: str) -> np.ndarray:
    return encode_block(text, _worker["tokenizer"])


def encode_files(files: Iterable[Path], tokenizer: BertTokenizer) -> Iterator[np.ndarray]:
    """The tokens of all files, block by block in order; a process for each core makes them."""
    texts = (text for path in files for text in read_blocks(path))
    with Pool(initializer=_begin_worker, initargs=(tokenizer,)) as pool:
        yield from pool.imap(_encode_in_worker, texts)  # a full pipe stops the reading
