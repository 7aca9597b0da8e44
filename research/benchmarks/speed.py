"""How fast this repository is, compared with others, in turns on the same rows of one machine.

    python -P research/benchmarks/speed.py --data DIR --model all-MiniLM-L6-v2
    python -P research/benchmarks/speed.py --data DIR --model all-MiniLM-L6-v2 --only training

Prints Markdown tables, values as median (minimum–maximum) over the repeats:
    training   fine-tuning on SST: ours with --fast; as written, that is ours without it; plain, a
               loop as many write it with transformers (random batches, tokenized each time, fp32);
               trainer, transformers.Trainer with its defaults; grouped, the same with grouping by
               length and bf16
    frozen     --option pretrain: ours, which encodes once, and plain
    length     how a step's cost grows with the length of the sentences
Each contender runs in a process of its own (speed_jobs.py). -P keeps our datasets.py from shadowing
a library that Trainer looks for. Needs:
pip install -r requirements-dev.txt accelerate==1.15.0
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import torch

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from datasets import load_data
from research.benchmarks import timing
from research.benchmarks.timing import peak_memory, print_table, ratios, seconds, spread
from training.cli.flags import OneLineParser, positive_int
from training.cli.scripts import run_script
from training.files.course_files import data_folder
from training.files.errors import InputError
from training.files.hub import find_model
from training.loop.devices import computes_bf16

JOBS = Path(__file__).with_name("speed_jobs.py")
FINETUNE = ("ours", "as written", "plain", "trainer", "grouped")
ON_GPU = ("ours", "ours, compiled", "plain", "trainer", "grouped")
FROZEN = ("ours", "plain")
FROZEN_EPOCHS = 3
TRAINING_ROWS = 640
LENGTHS = (16, 32, 64, 128, 256, 512)
STEPS, BATCH = 8, 8  # of a length


def in_turns(a: SimpleNamespace, jobs: dict[object, dict]) -> dict[object, list[dict]]:
    """Do all jobs in turns, each with the model and the device."""
    shared = {"model": a.model, "folder": str(a.folder), "use_gpu": a.use_gpu}
    return timing.in_turns(JOBS, {key: job | shared for key, job in jobs.items()}, a.repeats)


def kind_of_machine(use_gpu: bool) -> str:
    """The GPU, or what the cores compute in: "x86_64, AVX512, bfloat16, no AMX, 2 threads"."""
    if use_gpu:
        return torch.cuda.get_device_name()
    kinds = [platform.machine(), torch.backends.cpu.get_cpu_capability()]
    kinds.append("bfloat16" if computes_bf16(torch.device("cpu")) else "no bfloat16")
    kinds.append("AMX" if torch.cpu._is_amx_tile_supported() else "no AMX")
    return f"{', '.join(kinds)}, {torch.get_num_threads()} threads"


def write_sample(a: SimpleNamespace) -> tuple[str, int]:
    """A file from which jobs read random rows of SST, the same ones every time; how many."""
    rows = load_data(a.data / "ids-sst-train.csv", "rows")
    rows = random.Random(0).sample(rows, min(a.rows, len(rows)))
    path = Path(a.scratch) / "sst-train.json"
    content = {"texts": [row[0] for row in rows], "labels": [row[1] for row in rows]}
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path), len(rows)


# ---------------------------------------------------------------------------------------------
# The parts


def training(a: SimpleNamespace) -> None:
    """Fine-tuning, one epoch, at batch 8 and 32, on a GPU at 128, too."""
    names, sizes = (ON_GPU, (8, 32, 128)) if a.use_gpu else (FINETUNE, (8, 32))
    compare_training(a, "Fine-tuning on SST", names, sizes, frozen=False, epochs=1)


def frozen(a: SimpleNamespace) -> None:
    """The head alone, at batch 8."""
    title = f"A frozen encoder, {FROZEN_EPOCHS} epochs on SST"
    compare_training(a, title, FROZEN, (8,), frozen=True, epochs=FROZEN_EPOCHS)


def compare_training(
    a: SimpleNamespace,
    title: str,
    names: Sequence[str],
    batch_sizes: Sequence[int],
    frozen: bool,
    epochs: int,
) -> None:
    """A table of contenders in turns, for each batch size."""
    path, count = write_sample(a)
    table = []
    for batch_size in batch_sizes:
        job = {"rows": path, "batch_size": batch_size, "frozen": frozen, "epochs": epochs}
        results = in_turns(a, {name: {**job, "work": f"train {name}"} for name in names})
        ours = seconds(results["ours"])
        for name, runs in results.items():
            rates = (count * epochs / time for time in seconds(runs))
            shown = spread(rates), ratios(seconds(runs), ours), peak_memory(runs)
            table.append((batch_size, name, *shown))
    header = ("batch", "contender", "sentences a second", "ours is … × as fast", "peak MB")
    print_table(f"{title}, {count:,} sentences", header, table)


def length(a: SimpleNamespace) -> None:
    """A training step of sentences of 16 to 512 tokens."""
    job = {"work": "steps", "batch_size": BATCH, "steps": STEPS, "frozen": False}
    jobs = {tokens: {**job, "length": tokens} for tokens in LENGTHS}
    table = [
        (
            tokens,
            spread(1e3 * time / STEPS / BATCH for time in seconds(runs)),
            spread(1e6 * time / STEPS / BATCH / tokens for time in seconds(runs)),
            peak_memory(runs),
        )
        for tokens, runs in in_turns(a, jobs).items()
    ]
    header = ("tokens a sentence", "ms a sentence", "µs a token", "peak MB")
    print_table(f"A training step of ours, {BATCH} sentences of one length", header, table)


# ---------------------------------------------------------------------------------------------

PARTS: dict[str, Callable[[SimpleNamespace], None]] = {
    part.__name__: part for part in (training, frozen, length)
}


def part_names(text: str) -> list[str]:
    """An argparse type: names of parts with commas between them."""
    names = text.split(",")
    for name in names:
        if name not in PARTS:
            raise argparse.ArgumentTypeError(f"no part {name!r}; there are {', '.join(PARTS)}")
    return names


def main() -> None:
    """Measure what is asked for and print tables."""
    parser = OneLineParser(prog="research/benchmarks/speed.py", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--data", help="folder of the course files ($MINBERT_DATA does the same)")
    add("--model", help="name or folder of the pretrained BERT")
    add("--only", type=part_names, action="extend", help="parts, such as training,frozen")
    add("--rows", type=positive_int, default=TRAINING_ROWS, help="of training")
    add("--use_gpu", action="store_true", help="on CUDA")
    add("--repeats", type=positive_int, default=5)
    a = parser.parse_args()
    if a.use_gpu and not torch.cuda.is_available():
        raise InputError("--use_gpu: torch sees no CUDA device here")
    a.data = data_folder(a.data)
    a.folder = find_model(a.model)
    kind = kind_of_machine(a.use_gpu)
    print(f"{kind}; torch {torch.__version__}, {a.repeats} repeats, {a.folder.name}")
    with tempfile.TemporaryDirectory() as a.scratch:
        for name, part in PARTS.items():
            if name in (a.only or PARTS):
                part(a)


if __name__ == "__main__":
    run_script(main)
