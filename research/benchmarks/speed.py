"""How fast this repository is, beside others, in turns on the same rows of one machine.

    python -P research/benchmarks/speed.py --data DIR --model all-MiniLM-L6-v2
    python -P research/benchmarks/speed.py --data DIR --model all-MiniLM-L6-v2 --only training,frozen

Prints Markdown tables, values as median (minimum to maximum) over the repeats:
    peak       this machine's kind, GFLOP/s of its matrix products and GB/s of its memory, which the
               shares below refer to
    training   fine-tuning on SST: ours (batches by length, texts tokenized once, precision auto,
               our AdamW); plain, a loop as many write it with transformers (random batches,
               tokenized each time, fp32); trainer, transformers.Trainer with its defaults;
               grouped, the same with grouping by length and bf16
    frozen     --option pretrain: ours, which encodes once, beside plain
    inference  vectors of all sentences of SST and CFIMDB, beside transformers and
               sentence-transformers; first it is checked that all give the same vectors
    length     how a step's cost grows with the length of the sentences, by attention kernel
    size       how an epoch's cost grows with the number of sentences
Each contender runs in a process of its own (speed_jobs.py). -P keeps our datasets.py from shadowing
a library that Trainer looks for. Needs:
pip install -r requirements-dev.txt accelerate==1.15.0
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from types import SimpleNamespace

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from config import BertConfig
from datasets import SentenceClassificationDataset, load_data
from training.cli.arguments import OneLineParser, positive_int
from training.cli.scripts import run_script
from training.files.course_files import data_folder
from training.files.errors import InputError
from training.files.hub import find_model
from training.loop.devices import computes_bf16

FINETUNE = ("ours", "plain", "trainer", "grouped")
FINETUNE_ON_GPU = (
    "ours", "ours, kernel", "ours, compiled", "ours, graphs", "plain", "trainer", "grouped",
)  # fmt: skip
FROZEN = ("ours", "plain")
ENCODERS = (
    "ours", "transformers", "transformers, sorted, bf16", "sentence-transformers",
    "sentence-transformers, bf16",
)  # fmt: skip
FROZEN_EPOCHS = 3
TRAINING_ROWS = 640  # unless --rows says otherwise
INFERENCE_BATCH = 32  # the default of sentence-transformers
CHECKED = 64  # sentences of each data set whose vectors are compared
# Largest difference of a component of two unit vectors: of fp32, and of bf16 with its 8 bits
TOLERANCE = {"fp32": 1e-5, "bf16": 8e-3}
LENGTHS = (16, 32, 64, 128, 256, 512)
KERNELS = ("textbook", "sdpa")
STEPS = 8

# ---------------------------------------------------------------------------------------------
# Running, and showing what came out


def run_job(a: SimpleNamespace, work: str, **job) -> dict:
    """Run a piece of speed_jobs.WORK in a process of its own → its seconds, peak and result."""
    job |= {"work": work, "model": a.model, "folder": str(a.folder), "use_gpu": a.use_gpu}
    found = run_alone(work, ROOT / "research" / "benchmarks" / "speed_jobs.py", json.dumps(job))
    print(f"{work}: {found['seconds']:.1f} s", file=sys.stderr)
    return found


def run_alone(work: str, script: Path, *arguments: str) -> dict:
    """Run a script in a process of its own → the JSON of the last line it prints."""
    command = [sys.executable, "-P", str(script), *arguments]
    offline = os.environ | {"HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=offline)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise InputError(f"{work!r} failed: {lines[-1]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def in_turns(a: SimpleNamespace, jobs: dict[object, dict]) -> dict[object, list[dict]]:
    """Run all jobs in turns, ``a.repeats`` times."""
    found: dict[object, list[dict]] = {key: [] for key in jobs}
    for _ in range(a.repeats):
        for key, job in jobs.items():
            found[key].append(run_job(a, **job))
    return found


def spread(values: Iterable[float], digits: int = 1) -> str:
    """Median (minimum to maximum)."""
    values = list(values)
    shown = (f"{v:,.{digits}f}" for v in (median(values), min(values), max(values)))
    return "{} ({} to {})".format(*shown)


def ratios(above: Iterable[float], below: Iterable[float]) -> str:
    """The spread of the quotients, turn by turn."""
    return spread((one / other for one, other in zip(above, below, strict=True)), 2)


def print_table(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A Markdown table under a line in bold."""
    print(f"\n**{title}**\n")
    for row in (header, ["---"] * len(header), *rows):
        print("| " + " | ".join(map(str, row)) + " |")
    sys.stdout.flush()


def seconds(runs: list[dict]) -> list[float]:
    """Of every repeat."""
    return [run["seconds"] for run in runs]


def peak_memory(*contender: list[dict]) -> str:
    """MB of a contender's process, the median over the repeats (of its largest one)."""
    return f"{max(median(run['peak'] for run in runs) for runs in contender):,.0f}"


# ---------------------------------------------------------------------------------------------
# Rows


def sample(rows: list, count: int | None) -> list:
    """``count`` rows at random, the same ones every time, in the order of the file."""
    if count is None or count >= len(rows):
        return rows
    return [rows[i] for i in sorted(random.Random(0).sample(range(len(rows)), count))]


def write_rows(a: SimpleNamespace, name: str, texts: list[str], labels: list[int]) -> str:
    """A file from which jobs read them."""
    path = Path(a.scratch) / f"{name}.json"
    path.write_text(json.dumps({"texts": texts, "labels": labels}), encoding="utf-8")
    return str(path)


def training_rows(a: SimpleNamespace, count: int) -> tuple[str, SentenceClassificationDataset]:
    """A file of ``count`` training rows of SST, and the rows."""
    rows = sample(load_data(a.data / "ids-sst-train.csv", "rows"), count)
    path = write_rows(a, f"sst-train-{count}", [row[0] for row in rows], [row[1] for row in rows])
    return path, SentenceClassificationDataset(rows, a)


# ---------------------------------------------------------------------------------------------
# What the machine can do, and what the model needs


def kind_of_machine(use_gpu: bool) -> str:
    """The GPU, or what the cores compute in: "x86_64, AVX512, bfloat16, no AMX, 2 threads"."""
    if use_gpu:
        return torch.cuda.get_device_name()
    device = torch.device("cpu")
    kinds = [platform.machine(), torch.backends.cpu.get_cpu_capability()]
    kinds.append("bfloat16" if computes_bf16(device) else "no bfloat16")
    kinds.append("AMX" if torch.cpu._is_amx_tile_supported() else "no AMX")
    return f"{', '.join(kinds)}, {torch.get_num_threads()} threads"


def memory_rate(a: SimpleNamespace) -> float:
    """Bytes a second of the memory; prints them."""
    rates = [run["result"] for run in in_turns(a, {"triad": {"work": "triad"}})["triad"]]
    print(f"\nMemory (a = b + 3c on three tensors of 256 MB): {spread(rates)} GB/s.")
    return median(rates) * 1e9


def matmul_peak(a: SimpleNamespace) -> float:
    """FLOP/s of the best matrix product; prints the table."""
    runs = in_turns(a, {"matmul": {"work": "matmul"}})["matmul"]
    rates: dict[tuple[str, int], list[float]] = {}
    for run in runs:
        for dtype, size, rate in run["result"]:
            rates.setdefault((dtype, size), []).append(rate)
    rows = [(dtype, f"{n} × {n} × {n}", spread(found, 0)) for (dtype, n), found in rates.items()]
    print_table("Matrix products of this machine", ("type", "shape", "GFLOP/s"), rows)
    best = max(map(max, rates.values()))
    print(f"\nShares of the matmul peak below are of the fastest one, {best:,.0f} GFLOP/s.")
    return best * 1e9


def forward_flops(config: BertConfig, lengths: Sequence[int]) -> float:
    """Floating-point operations of the matrix products of a forward pass over sentences.

    For a word piece two for every weight of the layers' six dense parts, and for a pair of pieces
    of one sentence 4D in every layer (Q Kᵀ and the weighted values); the pooler once a sentence.
    Padding, embeddings, norms, softmax and the head do not count.
    """
    hidden, layers = config.hidden_size, config.num_hidden_layers
    pairs = sum(length**2 for length in lengths)
    products = 2 * dense_weights(config) * sum(lengths) + 4 * layers * hidden * pairs
    return products + 2 * hidden**2 * len(lengths)


def dense_weights(config: BertConfig) -> int:
    """How many weights the layers' six dense parts have together."""
    hidden = config.hidden_size
    return config.num_hidden_layers * (4 * hidden**2 + 2 * hidden * config.intermediate_size)


def step_bytes(config: BertConfig, pieces: int) -> float:
    """Bytes that a training step has to move at least, if no parameter stays in a cache.

    For each parameter in float32 it reads the weight forwards and backwards, writes a gradient and
    reads it, and AdamW reads and writes weight, m and v: 10 numbers of 4 bytes. Word vectors count
    where their piece occurs in the texts. Activations are taken to stay in the caches.
    """
    return 40 * (dense_weights(config) + pieces * config.hidden_size)


def share(flops: float, times: Iterable[float], peak: float) -> str:
    """Of the peak, in percent."""
    return f"{100 * flops / (median(times) * peak):.0f} %"


# ---------------------------------------------------------------------------------------------
# The parts


def training(a: SimpleNamespace) -> None:
    """Fine-tuning, one epoch, at batch 8 and 32, on a GPU at 128, too."""
    names, sizes = (FINETUNE_ON_GPU, (8, 32, 128)) if a.use_gpu else (FINETUNE, (8, 32))
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
    path, dataset = training_rows(a, a.rows or TRAINING_ROWS)
    lengths = dataset.lengths()
    forward = forward_flops(a.config, lengths)
    moved = step_bytes(a.config, len(dataset.seen()))
    table = []
    for batch_size in batch_sizes:
        steps = epochs * math.ceil(len(lengths) / batch_size)
        job = {"rows": path, "batch_size": batch_size, "frozen": frozen, "epochs": epochs}
        results = in_turns(a, {name: {**job, "work": f"train {name}"} for name in names})
        ours = seconds(results["ours"])
        for name, runs in results.items():
            times = seconds(runs)
            if frozen:  # forward passes only: ours makes one of all epochs
                flops = forward * (1 if name == "ours" else epochs)
            else:  # backward passes cost twice a forward pass
                flops = 3 * forward * epochs
            least = flops / a.peak + (0 if frozen else steps * moved / a.bandwidth)  # seconds
            rates = (len(lengths) * epochs / time for time in times)
            table.append(
                (
                    batch_size, name, spread(rates), ratios(times, ours),
                    share(flops, times, a.peak), f"{100 * least / median(times):.0f} %",
                    peak_memory(runs),
                )
            )  # fmt: skip
    header = (
        "batch", "contender", "sentences a second", "ours is … times as fast",
        "share of matmul peak", "share of the limit", "peak MB",
    )  # fmt: skip
    print_table(f"{title}, {len(lengths):,} sentences", header, table)
    counted = "each text's forward pass as often as it was made" if frozen else "3 × forward"
    print(
        f"\nOf the peak: matrix products of real word pieces, no padding, {counted}; forward takes "
        f"{forward / sum(lengths) / 1e6:.1f} MFLOP a piece, and a sentence has "
        f"{sum(lengths) / len(lengths):.1f} pieces."
    )
    if not frozen:
        print(
            f"The limit: these products at the peak, and then {moved / 1e6:,.0f} MB a step through "
            f"memory, {1e3 * moved / a.bandwidth:.1f} ms."
        )


def inference(a: SimpleNamespace) -> None:
    """Sentences a second over all splits of SST and CFIMDB."""
    texts = {}
    for name in ("sst", "cfimdb"):
        files = (a.data / f"ids-{name}-{split}.csv" for split in ("train", "dev", "test-student"))
        texts[name] = [text for file in files for text, _ in load_data(file, "test")]
    total = sum(map(len, texts.values()))
    if a.rows:  # keep the mix of the two
        texts = {
            name: sample(rows, max(1, round(a.rows * len(rows) / total)))
            for name, rows in texts.items()
        }
        total = sum(map(len, texts.values()))
    job = {"batch_size": INFERENCE_BATCH, "vectors": ""}
    for name, rows in texts.items():
        check_vectors(a, job | {"rows": write_rows(a, f"{name}-check", sample(rows, CHECKED), [])})
    files = {name: write_rows(a, name, rows, []) for name, rows in texts.items()}
    jobs = {
        (encoder, name): {**job, "work": f"encode {encoder}", "rows": file}
        for encoder in ENCODERS
        for name, file in files.items()
    }
    results = in_turns(a, jobs)
    table = []
    sums = {}
    for encoder in ENCODERS:
        each = [seconds(results[encoder, name]) for name in files]
        sums[encoder] = [sum(times) for times in zip(*each, strict=True)]
        counts = [len(rows) for rows in texts.values()]
        rates = [
            spread(count / time for time in times)
            for count, times in zip((*counts, total), (*each, sums[encoder]), strict=True)
        ]
        ratio = ratios(sums[encoder], sums["ours"])
        memory = peak_memory(*(results[encoder, name] for name in files))
        table.append((encoder, *rates, ratio, memory))
    shown = ", ".join(f"{len(rows):,} of {name.upper()}" for name, rows in texts.items())
    header = (
        "contender", "SST: sentences a second", "CFIMDB", "both", "ours is … times as fast",
        "peak MB",
    )  # fmt: skip
    title = f"Encoding {total:,} sentences ({shown}), batches of {INFERENCE_BATCH}"
    print_table(title, header, table)


def check_vectors(a: SimpleNamespace, job: dict) -> None:
    """InputError if a contender's vectors differ from those of transformers in fp32."""
    vectors = {}
    for encoder in ENCODERS:
        path = str(Path(a.scratch) / "vectors.npy")
        run_job(a, f"encode {encoder}", **(job | {"vectors": path}))
        vectors[encoder] = np.load(path, allow_pickle=False)
    for encoder, found in vectors.items():
        precise = encoder in ("transformers", "sentence-transformers")
        worst = float(np.abs(found - vectors["transformers"]).max())
        print(f"vectors of {encoder}: largest difference {worst:.1e}", file=sys.stderr)
        if not worst <= TOLERANCE["fp32" if precise else "bf16"]:  # also where it is nan
            raise InputError(f"vectors of {encoder} differ by {worst:.1e} from transformers'")


def length(a: SimpleNamespace) -> None:
    """A training step of 8 sentences of 16 to 512 pieces, with both attention kernels."""
    batch_size = 8
    jobs = {
        (pieces, kernel): {
            "work": "steps", "batch_size": batch_size, "length": pieces, "kernel": kernel,
            "steps": STEPS, "frozen": False,
        }
        for pieces in LENGTHS
        for kernel in KERNELS
    }  # fmt: skip
    table = []
    for (pieces, kernel), runs in in_turns(a, jobs).items():
        times = [time / STEPS for time in seconds(runs)]
        flops = 3 * forward_flops(a.config, [pieces] * batch_size)
        table.append(
            (
                pieces, kernel, spread(1e3 * time / batch_size for time in times),
                spread(1e6 * time / batch_size / pieces for time in times),
                share(flops, times, a.peak), peak_memory(runs),
            )
        )  # fmt: skip
    header = (
        "pieces a sentence", "attention", "ms a sentence", "µs a piece", "share of matmul peak",
        "peak MB",
    )  # fmt: skip
    print_table(f"A training step of ours, {batch_size} sentences of one length", header, table)


def size(a: SimpleNamespace) -> None:
    """An epoch of ours at batch 32 on 1, 2 and 4 times the rows."""
    jobs, lengths = {}, {}
    for times in (1, 2, 4):
        path, dataset = training_rows(a, times * (a.rows or TRAINING_ROWS))
        lengths[times] = dataset.lengths()
        job = {"work": "train ours", "rows": path, "batch_size": 32, "frozen": False, "epochs": 1}
        jobs[times] = job
    results = {times: seconds(runs) for times, runs in in_turns(a, jobs).items()}
    table = []
    for times, found in results.items():
        pieces = sum(lengths[times])
        table.append(
            (
                f"{len(lengths[times]):,}", f"{pieces:,}", spread(found),
                ratios(found, results[1]), spread(1e6 * time / pieces for time in found),
            )
        )  # fmt: skip
    header = ("sentences", "word pieces", "seconds", "times the first", "µs a piece")
    print_table("An epoch of ours on SST, batch 32", header, table)


# ---------------------------------------------------------------------------------------------

PARTS: dict[str, Callable[[SimpleNamespace], None]] = {
    part.__name__: part for part in (training, frozen, inference, length, size)
}
WITH_SHARES = {"peak", "training", "frozen", "length"}


def part_names(text: str) -> list[str]:
    """An argparse type: names of parts with commas between them."""
    names = text.split(",")
    for name in names:
        if name not in ("peak", *PARTS):
            raise argparse.ArgumentTypeError(
                f"no part {name!r}; there are peak, {', '.join(PARTS)}"
            )
    return names


def main() -> None:
    """Measure what is asked for and print tables."""
    parser = OneLineParser(prog="research/benchmarks/speed.py", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--data", help="folder of the course files ($MINBERT_DATA does the same)")
    add("--model", help="name or folder of the pretrained BERT")
    add("--only", type=part_names, action="extend", help="parts, such as training,frozen")
    add("--rows", type=positive_int, help=f"of training {TRAINING_ROWS}, of the others all")
    add("--use_gpu", action="store_true", help="on CUDA: peak, training, frozen and length")
    add("--repeats", type=positive_int, default=5)
    a = parser.parse_args()

    if a.use_gpu and not torch.cuda.is_available():
        raise InputError("--use_gpu: torch sees no CUDA device here")
    names = a.only or (["peak", *WITH_SHARES] if a.use_gpu else ["peak", *PARTS])
    a.data = data_folder(a.data)
    a.folder = find_model(a.model)
    a.config = BertConfig.from_pretrained(a.model)
    kind = kind_of_machine(a.use_gpu)
    print(f"{kind}; torch {torch.__version__}, {a.repeats} repeats, {a.folder.name}")
    with tempfile.TemporaryDirectory() as a.scratch:
        if WITH_SHARES & set(names):
            a.peak, a.bandwidth = matmul_peak(a), memory_rate(a)
        for name, part in PARTS.items():
            if name in names:
                part(a)


if __name__ == "__main__":
    run_script(main)
