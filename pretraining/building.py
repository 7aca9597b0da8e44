"""Text files → the files of a corpus: built once, verified and used again afterwards.

It does not know how a corpus is read: that is corpus.py's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from filelock import FileLock
from tqdm import tqdm

from pretraining.blocks import (
    LONGEST_SENTENCE,
    Encoded,
    encode_blocks,
    id_type,
    read_blocks,
    text_files,
    usable_cores,
)
from pretraining.corpus import DATA_FILES, Corpus, read_description
from tokenizer import BertTokenizer
from training.files.errors import InputError, first_line, trouble_in_one_line
from training.files.writing import atomic_write, sha256_of, write_json
from training.loop.processes import on_main_process

VERSION = 3  # of these files and of how text is cut; another one is built again


def build(
    sources: Sequence[str | Path],
    tokenizer: BertTokenizer,
    folder: str | Path,
    workers: int = 0,
    limit: int | None = None,
) -> Corpus:
    """The corpus of these texts in ``folder``: the one that is there, verified, or a new one.

    A file's end ends a document, as a blank line does. Bytes that are not UTF-8 are replaced and
    reported, files without text are left out and named. The result does not depend on ``workers``.

    Args:
        sources: text files, and folders whose *.txt are taken.
        tokenizer: a corpus made with another vocabulary is built again.
        workers: processes that tokenize; 0 for one a core, 1 for this one alone.
        limit: stop after that many sentences.

    Raises:
        InputError: no such file, no text in them, or a folder that cannot be written.
    """
    folder = Path(folder)
    if limit is not None and limit < 1:
        raise InputError(f"a corpus of {limit} sentences is empty; give a limit of at least 1")

    def work() -> None:
        files = text_files(sources)
        wanted = {
            "version": VERSION,
            "sources": [
                {"file": str(path), "bytes": path.stat().st_size, "sha256": sha256_of(path)}
                for path in files
            ],
            "vocabulary": _vocabulary_hash(tokenizer),
            "limit": limit,
        }
        with _locked(folder):
            why = _why_rebuild(folder, wanted)
            if why:
                if why != "new":
                    print(f"corpus: {folder} is built again, {why}", flush=True)
                _write(folder, files, tokenizer, workers or usable_cores(), wanted)

    on_main_process(work)
    corpus = Corpus(folder)
    print(
        f"corpus: {corpus.n_sentences:,} sentences, {corpus.n_tokens:,} tokens, "
        f"{corpus.n_documents:,} documents in {folder}"
    )
    return corpus


def _vocabulary_hash(tokenizer: BertTokenizer) -> str:
    text = f"{tokenizer.lower_case}\n" + "\n".join(tokenizer.pieces)
    return hashlib.sha256(text.encode()).hexdigest()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock the folder: a second program that wants the same corpus waits until it is built."""
    with trouble_in_one_line("choose another folder", f"cannot write the corpus {folder}: "):
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):
            yield


def _why_rebuild(folder: Path, wanted: dict[str, Any]) -> str:
    """Why the folder's corpus cannot be used: '' if it can, 'new' where there is none."""
    if not (folder / "corpus.json").exists():
        return "new"
    try:
        present = read_description(folder)
        hashes, wanted_hashes = (
            [source["sha256"] for source in description["sources"]]
            for description in (present, wanted)
        )
        for differs, reason in (
            (present["version"] != wanted["version"], "it was made by another version"),
            (hashes != wanted_hashes, "the texts have changed"),
            (present["vocabulary"] != wanted["vocabulary"], "the vocabulary has changed"),
            (present["limit"] != wanted["limit"], f"its limit was {present['limit']}"),
        ):
            if differs:
                return reason
        for name in DATA_FILES:
            if sha256_of(folder / name) != present["files"][name]["sha256"]:
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
    unit = "sentences" if limit else "B"
    cut = replaced = 0
    first_bad = ""
    without_text = dict.fromkeys(files)
    blocks = encode_blocks(read_blocks(files), tokenizer, workers)
    with ExitStack() as stack:
        writer = CorpusWriter(
            *(stack.enter_context(atomic_write(folder / name, "wb")) for name in DATA_FILES), limit
        )
        bar = stack.enter_context(
            tqdm(total=total, desc="corpus", unit=unit, unit_scale=True, leave=False, disable=None)
        )
        stack.callback(blocks.close)
        for block, encoded in blocks:
            written = writer.add(encoded)
            bar.update(written if limit else len(block.text))
            if written:
                without_text.pop(files[block.source], None)
            if encoded.first_bad and not first_bad:
                first_bad = f"{files[block.source]}, line {encoded.first_bad}"
            cut, replaced = cut + encoded.cut, replaced + encoded.replaced
            if writer.is_full():
                break
        if not writer.sentences:
            raise InputError(
                f"no text in {', '.join(map(str, files[:3]))}{' …' if len(files) > 3 else ''}; "
                "give files with a paragraph a line"
            )
        (folder / "corpus.json").unlink(missing_ok=True)  # until the new files are there
    made = {
        "documents": writer.documents,
        "sentences": writer.sentences,
        "tokens": writer.tokens,
        "type": id_type(tokenizer.vocab_size).name,
        "replaced": replaced,
        "cut": cut,
        "files": {
            name: {"bytes": (folder / name).stat().st_size, "sha256": sha256_of(folder / name)}
            for name in DATA_FILES
        },
    }
    write_json(folder / "corpus.json", wanted | made)
    _print_notes(replaced, first_bad, cut, [] if limit else [*map(str, without_text)])


def _print_notes(replaced: int, first_bad: str, cut: int, without_text: list[str]) -> None:
    """What the user should know of the text: bytes replaced, sentences cut, files without text."""
    if replaced:
        print(f"corpus: {replaced} places are not UTF-8 and were replaced; the first: {first_bad}")
    if cut:
        print(f"corpus: {cut} sentences were cut every {LONGEST_SENTENCE} tokens")
    if without_text:
        more = f" and {len(without_text) - 3} more" if len(without_text) > 3 else ""
        names = ", ".join(without_text[:3])
        print(f"corpus: {len(without_text)} files hold no text: {names}{more}")


class CorpusWriter:
    """Appends blocks of sentences to the three files.

    Args:
        limit: stop after that many sentences; None for all.
    """

    def __init__(self, ids: BinaryIO, sentences: BinaryIO, documents: BinaryIO, limit: int | None):
        self.ids_file, self.sentences_file, self.documents_file = ids, sentences, documents
        self.limit = limit
        self.tokens = self.sentences = self.documents = 0
        self.document_begin = 0  # the first sentence of the document that is being read
        for file in (sentences, documents):
            file.write(np.zeros(1, np.int64).data)

    def is_full(self) -> bool:
        """Whether the limit has been reached."""
        return self.sentences == self.limit

    def add(self, encoded: Encoded) -> int:
        """Write the block's sentences, up to the limit; how many these are."""
        lengths = encoded.lengths
        if self.limit is not None:
            lengths = lengths[: self.limit - self.sentences]
        if len(lengths):
            starts = self.tokens + np.cumsum(lengths)  # where the sentence after each begins
            self.ids_file.write(encoded.ids[: starts[-1] - self.tokens].data)
            self.sentences_file.write(starts.data)
            self.tokens = int(starts[-1])
        ends = [self.sentences + end for end in encoded.ends if end <= len(lengths)]
        self.sentences += len(lengths)
        if self.is_full():
            ends.append(self.sentences)
        for end in ends:
            if end > self.document_begin:  # several blank lines are as good as one
                self.documents_file.write(np.array([end], np.int64).data)
                self.documents, self.document_begin = self.documents + 1, end
        return len(lengths)
