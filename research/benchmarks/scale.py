"""How cost grows: pairs of sentences that are read, text that is tokenized, layers.

    python -P research/benchmarks/scale.py --text BOOKS --vocab all-MiniLM-L6-v2

Prints Markdown tables, each row from a process of its own, median (minimum to maximum):
    pairs     a file of N pairs: reading, tokenizing, peak memory (as the paraphrase task)
    corpus    N sentences tokenized for pre-training by all cores, and their size on disk
    layers    a training step of 8 sentences of 32 pieces on a BERT of N layers, random weights
docs/scale.md says what follows for a million pairs and a billion pieces.
"""

from __future__ import annotations

import csv
import itertools
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import torch

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from bert import BertModel
from config import BertConfig
from datasets import SentencePairDataset, load_pairs
from optimizer import AdamW
from pretraining.building import build
from research.benchmarks.speed import print_table, ratios, run_alone, spread
from tokenizer import BertTokenizer
from training.acceleration import accelerate
from training.cli.arguments import OneLineParser, positive_int
from training.cli.scripts import run_script
from training.loop.devices import autocast_for, keep_freed_memory

LAYERS = (3, 6, 12)
BATCH, LENGTH, WARM_UP, STEPS = 8, 32, 3, 30

# ---------------------------------------------------------------------------------------------
# What is measured, each in a process of its own


def pairs(job: SimpleNamespace, folder: Path) -> dict:
    """Read and tokenize ``job.count`` pairs of lines that follow one another."""
    path = folder / "pairs.csv"
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t")
        writer.writerow(["", "id", "sentence1", "sentence2", "is_duplicate"])
        rows = itertools.islice(zip(*[sentences(job.text)] * 2, strict=False), job.count)
        writer.writerows([i, i, *pair, float(i % 2)] for i, pair in enumerate(rows))
    begun = time.perf_counter()
    rows = load_pairs(path, "train", "is_duplicate")
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


def corpus(job: SimpleNamespace, folder: Path) -> dict:
    """Tokenize ``job.count`` sentences."""
    tokenizer = BertTokenizer.from_pretrained(job.vocab)
    begun = time.perf_counter()
    with_ids = build([job.text], tokenizer, folder, limit=job.count)
    return {
        "tokenize": time.perf_counter() - begun,
        "pieces": len(with_ids.ids),
        "bytes": sum(file.stat().st_size for file in folder.iterdir()),
    }


def layers(job: SimpleNamespace, folder: Path) -> dict:
    """Steps of a BERT of ``job.count`` layers."""
    keep_freed_memory()
    config = BertConfig.from_pretrained(job.vocab)
    config.num_hidden_layers = job.count
    model = BertModel(config).train()
    optimizer = AdamW(model.parameters(), lr=1e-5)
    accelerate(model)
    autocast = autocast_for(torch.device("cpu"), "auto")
    ids = torch.randint(1, config.vocab_size, (BATCH, LENGTH))  # (B, L)
    for step in range(WARM_UP + STEPS):
        if step == WARM_UP:
            begun = time.perf_counter()
        optimizer.zero_grad()
        with autocast():
            vectors = model(ids, torch.ones_like(ids))["pooler_output"]  # (B, D)
        vectors.float().square().mean().backward()
        optimizer.step()
    return {"step": (time.perf_counter() - begun) / STEPS}


WORK: dict[str, Callable[[SimpleNamespace, Path], dict]] = {
    work.__name__: work for work in (pairs, corpus, layers)
}


def do_job(text: str) -> None:
    """What the process of its own does."""
    job = SimpleNamespace(**json.loads(text))
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        found = WORK[job.work](job, Path(folder))
    unit = 2**20 if sys.platform == "darwin" else 2**10  # of ru_maxrss, in bytes or in KB
    found["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    print(json.dumps(found))


# ---------------------------------------------------------------------------------------------
# The tables


def measure(a: SimpleNamespace, work: str, counts: tuple[int, ...]) -> dict[int, list[dict]]:
    """A work with each count in turns."""
    found: dict[int, list[dict]] = {count: [] for count in counts}
    for _ in range(a.repeats):
        for count, runs in found.items():
            job = {"work": work, "count": count, "text": a.text, "vocab": a.vocab}
            runs.append(run_alone(work, Path(__file__).resolve(), "--job", json.dumps(job)))
            print(f"{work} {count:,}: done", file=sys.stderr)
    return found


def column(runs: list[dict], key: str, digits: int = 1, factor: float = 1.0) -> str:
    """Of the repeats of a row."""
    return spread((run[key] * factor for run in runs), digits)


def main() -> None:
    """Measure all and print the tables."""
    parser = OneLineParser(prog="research/benchmarks/scale.py", description=__doc__.splitlines()[0])
    parser.add_argument("--text", help="folder of text files, a sentence a line")
    parser.add_argument("--vocab", help="model whose vocabulary and width are taken")
    parser.add_argument("--count", type=positive_int, default=10_000, help="and ten times as many")
    parser.add_argument("--repeats", type=positive_int, default=3)
    parser.add_argument("--job", help="what a process of its own is told; not for people")
    a = parser.parse_args()
    if a.job:
        do_job(a.job)
        return
    if not (a.text and a.vocab):
        parser.error("--text and --vocab are needed")
    counts = (a.count, 10 * a.count)
    rows = [
        (f"{n:,}", column(runs, "read", 2), column(runs, "tokenize"), column(runs, "peak", 0))
        for n, runs in measure(a, "pairs", counts).items()
    ]
    print_table("Pairs", ("pairs", "reading, s", "tokenizing, s", "peak MB"), rows)
    rows = [
        (
            f"{n:,}", f"{runs[0]['pieces']:,}", column(runs, "tokenize"),
            f"{runs[0]['bytes'] / runs[0]['pieces']:.2f}", column(runs, "peak", 0),
        )
        for n, runs in measure(a, "corpus", counts).items()
    ]  # fmt: skip
    header = ("sentences", "pieces", "tokenizing, s", "bytes a piece", "peak MB")
    print_table("A corpus", header, rows)
    found = measure(a, "layers", LAYERS)
    steps = {n: [run["step"] for run in runs] for n, runs in found.items()}
    rows = [
        (
            n, column(found[n], "step", 1, 1e3), ratios(times, steps[LAYERS[0]]),
            column(found[n], "peak", 0),
        )
        for n, times in steps.items()
    ]  # fmt: skip
    header = ("layers", "ms a step", f"times that of {LAYERS[0]}", "peak MB")
    print_table(f"A step of {BATCH} sentences of {LENGTH} pieces", header, rows)


if __name__ == "__main__":
    run_script(main)
