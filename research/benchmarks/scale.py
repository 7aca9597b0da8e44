"""How cost grows: pairs of sentences that are read, text that is tokenized.

    python -P research/benchmarks/scale.py --text BOOKS --vocab all-MiniLM-L6-v2

Prints Markdown tables, each row from a process of its own, median (minimum–maximum):
    pairs     a file of N pairs: reading, tokenizing, peak memory (as the paraphrase task)
    corpus    N sentences tokenized for pre-training by all cores, and their size on disk
docs/maintainers/tests.md says what follows for a million pairs and a billion tokens.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from datasets import SentencePairDataset, load_pairs
from pretraining.building import build
from research.benchmarks import timing
from tokenizer import BertTokenizer
from training.cli.flags import OneLineParser, positive_int
from training.cli.scripts import run_script

# ---------------------------------------------------------------------------------------------
# What is measured, each in a process of its own


def pairs(job: SimpleNamespace) -> dict:
    """Read and tokenize ``job.count`` pairs of lines that follow one another."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t")
        writer.writerow(["", "id", "sentence1", "sentence2", "is_duplicate"])
        rows = itertools.islice(zip(*[sentences(job.text)] * 2, strict=False), job.count)
        writer.writerows([i, i, *pair, float(i % 2)] for i, pair in enumerate(rows))
        file.flush()
        begun = time.perf_counter()
        rows = load_pairs(file.name, "train", "is_duplicate")
        read = time.perf_counter()
    SentencePairDataset(rows, SimpleNamespace(model=job.vocab)).lengths()
    return {"read": read - begun, "tokenize": time.perf_counter() - read, "count": len(rows)}


def sentences(text: str) -> Iterator[str]:
    """The lines of all files of a folder that are not blank; a second reading numbers them."""
    files = sorted(Path(text).glob("*.txt"))
    for turn in itertools.count():
        for file in files:
            for line in file.read_text(encoding="utf-8").splitlines():
                if line.strip():
                    yield f"{line.strip()} {turn}" if turn else line.strip()


def corpus(job: SimpleNamespace) -> dict:
    """Tokenize ``job.count`` sentences."""
    tokenizer = BertTokenizer.from_pretrained(job.vocab)
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        with_ids = build([job.text], tokenizer, folder, limit=job.count)
        return {
            "tokenize": time.perf_counter() - begun,
            "tokens": len(with_ids.ids),
            "bytes": sum(file.stat().st_size for file in Path(folder).iterdir()),
        }


WORK = {"pairs": pairs, "corpus": corpus}


# ---------------------------------------------------------------------------------------------
# The tables


def measure(a: argparse.Namespace, work: str) -> dict[int, list[dict]]:
    """A work with both counts in turns."""
    job = {"work": work, "text": a.text, "vocab": a.vocab}
    jobs = {count: job | {"count": count} for count in (a.count, 10 * a.count)}
    return timing.in_turns(Path(__file__).resolve(), jobs, a.repeats)


def column(runs: list[dict], key: str, digits: int = 1) -> str:
    """The spread of the repeats of a row."""
    return timing.spread((run[key] for run in runs), digits)


def main() -> None:
    """Measure both and print the tables."""
    parser = OneLineParser(prog="research/benchmarks/scale.py", description=__doc__.splitlines()[0])
    parser.add_argument("--text", help="folder of text files, a sentence a line")
    parser.add_argument("--vocab", help="model whose vocabulary is taken")
    parser.add_argument("--count", type=positive_int, default=10_000, help="and ten times as many")
    parser.add_argument("--repeats", type=positive_int, default=3)
    parser.add_argument("--job", help="what a process of its own is told; not for people")
    a = parser.parse_args()
    if a.job:
        timing.do_job(WORK, a.job)
        return
    if not (a.text and a.vocab):
        parser.error("--text and --vocab are needed")
    rows = [
        (f"{n:,}", column(runs, "read", 2), column(runs, "tokenize"), column(runs, "peak", 0))
        for n, runs in measure(a, "pairs").items()
    ]
    timing.print_table("Pairs", ("pairs", "reading, s", "tokenizing, s", "peak MB"), rows)
    rows = [
        (
            f"{n:,}", f"{runs[0]['tokens']:,}", column(runs, "tokenize"),
            f"{runs[0]['bytes'] / runs[0]['tokens']:.2f}", column(runs, "peak", 0),
        )
        for n, runs in measure(a, "corpus").items()
    ]  # fmt: skip
    header = ("sentences", "tokens", "tokenizing, s", "bytes a token", "peak MB")
    timing.print_table("A corpus", header, rows)


if __name__ == "__main__":
    run_script(main)
