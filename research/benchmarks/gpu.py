"""All that is measured on a lent GPU: tests, fine-tuning, pre-training, precisions, memory.

    python -P research/benchmarks/gpu.py --out gpu.json    # without a GPU smaller, on the CPU
    python -P research/benchmarks/gpu.py --tiny            # tries it out

It needs this repository and nothing else: weights are random, in bert-base's shape, and sentences
are those of data/practice. Each contender is a process with a time limit: one that hangs costs only
its slot, and the rows that it had printed count. Ours are the scripts, timed between two of their
steps. Those of transformers are "plain", as many write it (fp32, tokenized in the loop), and tuned:
tokenized before, batches by length, bf16, fused AdamW, PyTorch's attention kernel. -P keeps our
datasets.py from shadowing a library. Needs: pip install -r requirements-dev.txt
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pandas as pd
import torch
from torch import nn

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

import classifier
from bert import BertModel
from pretraining import pretrain
from pretraining.presets import preset
from research.benchmarks import speed
from research.benchmarks.timing import print_table, timed
from tokenizer import BertTokenizer
from training.cli.flags import OneLineParser, positive_float
from training.cli.scripts import run_script
from training.files.writing import write_json
from training.loop.batches import LengthBatches
from training.loop.run import Run

TABLE = ROOT / "data" / "practice" / "ids-sst-train.csv"
TESTS = "tests/test_gpu.py"
DEV = ROOT / "data" / "practice" / "ids-sst-dev.csv"
VOCABULARY = ROOT / "models" / "books"
WARM_UP, WARM_UP_COMPILED = 5, 40  # steps before the clock starts
FULL = SimpleNamespace(
    shape="base", batches=(8, 32, 128), steps=30, rows=256, length=128, matrix=8192
)
ON_CPU = SimpleNamespace(
    shape="heartbert", batches=(8, 32), steps=20, rows=32, length=128, matrix=2048
)
TINY = SimpleNamespace(shape="tiny", batches=(4,), steps=2, rows=8, length=32, matrix=64)


def sizes_of(job: SimpleNamespace) -> SimpleNamespace:
    """What is computed, by where."""
    if job.tiny:
        return TINY
    return FULL if job.use_gpu else ON_CPU


# ---------------------------------------------------------------------------------------------
# What is timed, each in a process of its own. A job: contender, use_gpu, tiny, and the folder with
# model/, shape.json, train.csv and text.txt

Rows = Iterator[dict]


class Timed(Exception):
    """The steps that are timed have been made."""


def time_script(main: Callable[[], None], job: SimpleNamespace, warm_up: int, steps: int) -> dict:
    """Run a script until those steps are made → sentences and tokens a second, and its start."""
    marks, rows = [], 0
    end_step, begun = Run.end_step, time.perf_counter()

    def end_step_and_look(run: Run) -> None:
        nonlocal rows
        end_step(run)
        rows += run.rows
        if run.position.step in (warm_up, warm_up + steps):
            synchronize(job)
            marks.append((time.perf_counter(), rows, run.progress.pieces))
        if len(marks) == 2:
            raise Timed

    printed = io.StringIO()
    watched = mock.patch.object(Run, "end_step", end_step_and_look)
    with watched, redirect_stdout(printed), suppress(Timed):
        main()
    (first, rows_before, tokens_before), (last, rows_after, tokens_after) = marks
    took = last - first
    return {
        "sentences": (rows_after - rows_before) / took,
        "tokens": (tokens_after - tokens_before) / took,
        "start": first - begun,
        "check": "; ".join(line for line in printed.getvalue().splitlines() if "compute" in line),
    }


def synchronize(job: SimpleNamespace) -> None:
    """Wait for the device."""
    if job.use_gpu:
        torch.cuda.synchronize()


def our_flags(job: SimpleNamespace, flags: str) -> list[str]:
    """Those of the contender, and --use_gpu where there is one."""
    return [*flags.split(), *(["--use_gpu", "--trust_device"] if job.use_gpu else [])]


def warm_up_of(job: SimpleNamespace, flags: str) -> int:
    """Steps until every shape was met."""
    if job.tiny:
        return 1
    return WARM_UP_COMPILED if "--compile" in flags else WARM_UP


def our_fine_tuning(job: SimpleNamespace, sizes: SimpleNamespace, flags: str = "") -> Rows:
    """classifier.py on as many sentences as it takes."""
    for batch in sizes.batches:
        line = f"--train train.csv --dev {DEV} --model model --option finetune --epochs 1 --lr 5e-5"
        sys.argv = ["classifier.py", *line.split(), *our_flags(job, flags)]
        sys.argv += ["--batch_size", str(batch)]
        warm_up = warm_up_of(job, flags)
        yield {"batch": batch} | time_script(classifier.main, job, warm_up, sizes.steps)


def our_pretraining(job: SimpleNamespace, sizes: SimpleNamespace, flags: str = "") -> Rows:
    """pretrain.py, masked words alone."""
    line = (
        f"--text text.txt --out out --vocab {VOCABULARY} --config shape.json --objective none "
        f"--length {sizes.length} --batch_size {sizes.rows} --mask 0.3 --held_out 0 --epochs 1000"
    )
    sys.argv = ["pretrain.py", *line.split(), *our_flags(job, flags)]
    warm_up = warm_up_of(job, flags)
    row = time_script(pretrain.main, job, warm_up, sizes.steps)
    yield {"batch": sizes.rows} | row


def plain(job: SimpleNamespace, sizes: SimpleNamespace) -> Rows:
    """Transformers as many write it; see speed.py."""
    for batch in sizes.batches:
        for steps in (2, sizes.steps):  # the first ones warm up
            rows = batch * steps
            fields = {"rows": rows, "batch_size": batch, "epochs": 1, "frozen": False}
            took = speed.plain(speed_job(job, **fields))["seconds"]
        yield {"batch": batch, "sentences": rows / took}


def speed_job(job: SimpleNamespace, **fields: object) -> SimpleNamespace:
    """A job as speed.py's functions take it."""
    return SimpleNamespace(model="model", file="train.csv", use_gpu=job.use_gpu, **fields)


def tuned(job: SimpleNamespace, sizes: SimpleNamespace) -> Rows:
    """Transformers' classifier in a loop whose author knows PyTorch."""
    tokenizer, model = speed.their_classifier(speed_job(job, frozen=False))
    for batch in sizes.batches:
        rows = batch * (WARM_UP + sizes.steps)
        texts, labels = speed.sample(SimpleNamespace(file="train.csv", rows=rows))
        encoded = tokenizer(texts, truncation=True, max_length=speed.MAX_LENGTH)["input_ids"]
        batches = (
            {
                **tokenizer.pad({"input_ids": [encoded[i] for i in part]}, return_tensors="pt"),
                "labels": torch.tensor([labels[i] for i in part]),
            }
            for part in LengthBatches([len(ids) for ids in encoded], batch, seed=0)
        )
        yield {"batch": batch} | time_their_steps(job, model, batches, sizes.steps)


def masked_lm(job: SimpleNamespace, sizes: SimpleNamespace, compiled: bool = False) -> Rows:
    """Transformers' BertForMaskedLM, tuned alike, on a batch that is ready in memory."""
    sys.path[:] = [folder for folder in sys.path if folder != str(ROOT)]  # where datasets.py is
    from transformers import BertConfig as TheirConfig
    from transformers import BertForMaskedLM

    config = TheirConfig.from_json_file("shape.json")
    model = BertForMaskedLM(config).train().to(speed.device_of(job))
    if compiled:
        model.compile()
    ids = torch.randint(5, config.vocab_size, (sizes.rows, sizes.length))  # (B, L)
    labels = ids.where(torch.rand(ids.shape) < 0.3, -100)
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}
    yield {"batch": sizes.rows} | time_their_steps(job, model, itertools.repeat(batch), sizes.steps)


def time_their_steps(
    job: SimpleNamespace, model: nn.Module, batches: Iterable[dict], steps: int
) -> dict:
    """Train: bf16, fused AdamW, clipping, copies that nobody waits for → what time_script gives."""
    device = speed.device_of(job)
    optimizer = torch.optim.AdamW(model.parameters(), lr=speed.LR, fused=True)
    rows = tokens = 0
    begun = time.perf_counter()
    for number, batch in enumerate(itertools.islice(batches, WARM_UP + steps)):
        if number == WARM_UP:
            synchronize(job)
            first, rows, tokens = time.perf_counter(), 0, 0
        rows += len(batch["labels"])
        tokens += int(batch["attention_mask"].sum())
        if job.use_gpu:
            batch = {key: tensor.pin_memory() for key, tensor in batch.items()}
        batch = {key: tensor.to(device, non_blocking=True) for key, tensor in batch.items()}
        with torch.autocast(device.type, torch.bfloat16):
            loss = model(**batch).loss
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    synchronize(job)
    took = time.perf_counter() - first
    return {"sentences": rows / took, "tokens": tokens / took, "start": first - begun}


def products(job: SimpleNamespace, sizes: SimpleNamespace) -> Rows:
    """Products of large matrices: what the device can do at most."""
    for name in ("float32", "float16", "bfloat16"):
        a = torch.randn(sizes.matrix, sizes.matrix, device=speed.device_of(job))
        a = a.to(getattr(torch, name))
        timed(lambda a=a: a @ a, job.use_gpu)
        took = min(timed(lambda a=a: a @ a, job.use_gpu)["seconds"] for _ in range(5))
        yield {"type": name, "teraflops": 2 * sizes.matrix**3 / took / 1e12}


CONTENDERS = {  # part, and what is done
    "products": ("peak", products),
    "ours": ("fine-tuning", our_fine_tuning),
    "ours --fast": ("fine-tuning", partial(our_fine_tuning, flags="--fast")),
    "tuned": ("fine-tuning", tuned),
    "plain": ("fine-tuning", plain),
    "ours pre-training --fast": ("pre-training", partial(our_pretraining, flags="--fast")),
    "BertForMaskedLM": ("pre-training", masked_lm),
    "ours --fast --precision fp16": (
        "fine-tuning", partial(our_fine_tuning, flags="--fast --precision fp16"),
    ),
    "BertForMaskedLM compiled": ("pre-training", partial(masked_lm, compiled=True)),
    "ours pre-training --fast --compile": (
        "pre-training", partial(our_pretraining, flags="--fast --compile"),
    ),
    "ours --fast --compile": (
        "fine-tuning", partial(our_fine_tuning, flags="--fast --compile"),
    ),
}  # fmt: skip


def do_job(job: SimpleNamespace) -> None:
    """Print a row of JSON for each measurement as soon as it is made, with the memory it took."""
    os.chdir(job.folder)
    torch.manual_seed(0)
    if job.use_gpu:
        torch.cuda.reset_peak_memory_stats()
    for row in CONTENDERS[job.contender][1](job, sizes_of(job)):
        if job.use_gpu:
            row["peak_mb"] = torch.cuda.max_memory_allocated() / 2**20
            torch.cuda.reset_peak_memory_stats()
        print(json.dumps(row), flush=True)


# ---------------------------------------------------------------------------------------------
# The slots


def write_inputs(folder: Path, sizes: SimpleNamespace) -> int:
    """Random weights, their shape, sentences and a text → the encoder's parameters."""
    tokenizer = BertTokenizer.from_pretrained(str(VOCABULARY))
    config = preset(sizes.shape)
    model = BertModel(config)
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model", config.max_position_embeddings)
    fields = {"name_or_path": "", "vocab_size": tokenizer.vocab_size}
    write_json(folder / "shape.json", config.to_dict() | fields)
    rows = max(sizes.batches) * (WARM_UP_COMPILED + sizes.steps)
    table = pd.read_csv(TABLE, sep="\t", index_col=0).sample(rows, replace=True, random_state=0)
    table["id"] = [f"{number:025x}" for number in range(rows)]
    table.reset_index(drop=True).to_csv(folder / "train.csv", sep="\t")
    sentences = iter(table["sentence"].tolist() * 100)
    documents = ("\n".join(next(sentences) for _ in range(40)) for _ in range(400))
    (folder / "text.txt").write_text("\n\n".join(documents), encoding="utf-8")
    return sum(p.numel() for p in model.bert_layers.parameters())


def run_slot(command: list[str], limit: float, folder: Path) -> tuple[str, str]:
    """What a command prints within its time, and what went wrong, if anything did."""
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    try:
        done = subprocess.run(
            command, capture_output=True, cwd=folder, env=environment, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired as error:
        return (error.stdout or b"").decode(), f"not ready after {limit:.0f} s"
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    fault = (lines or [f"exit status {done.returncode}"])[-1] if done.returncode else ""
    return done.stdout.decode(), fault


def measure(args: argparse.Namespace, folder: Path) -> list[dict]:
    """The tests and all contenders, one after the other, until the time is up → the rows."""
    end, rows = time.monotonic() + 60 * args.minutes, []
    for contender in args.only:
        limit = args.limit * (2 if contender == TESTS else 1)
        limit = min(limit, end - time.monotonic())
        job = {"contender": contender, "use_gpu": args.use_gpu, "tiny": args.tiny}
        job = json.dumps(job | {"folder": str(folder)})
        command = [sys.executable, "-P", str(Path(__file__).resolve()), "--job", job]
        if contender == TESTS:
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", TESTS]
        here = ROOT if contender == TESTS else folder
        printed, fault = run_slot(command, limit, here) if limit > 0 else ("", "no time was left")
        lines = printed.splitlines()
        if contender == TESTS:
            own = [{"result": line} for line in lines[-1:]]
        else:
            own = [json.loads(line) for line in lines if line.startswith("{")]
        own += [{"fault": fault}] if fault else []
        part = "tests" if contender == TESTS else CONTENDERS[contender][0]
        rows += [{"part": part, "contender": contender, **row} for row in own]
        print(f"{contender}: {fault or 'done'}", file=sys.stderr)
    return rows


def add_shares(rows: list[dict], parameters: int) -> None:
    """How much of the device's matrix products a row's tokens need: 6 for a token and parameter."""
    peaks = {row["type"]: row["teraflops"] for row in rows if "type" in row}
    for row in rows:
        kind = "float16" if "fp16" in row["contender"] else "bfloat16"
        if "tokens" in row and kind in peaks:
            row["share_of_peak"] = 6 * parameters * row["tokens"] / 1e12 / peaks[kind]


def main() -> None:
    """Measure, print the table and write it."""
    parser = OneLineParser(prog="research/benchmarks/gpu.py", description=__doc__.splitlines()[0])
    every = [TESTS, *CONTENDERS]
    add = parser.add_argument
    add("--out", type=Path, default=Path("gpu.json"), help="the table as JSON (%(default)s)")
    add("--tiny", action="store_true", help="tiny sizes")
    add("--minutes", type=positive_float, default=4.0, help="for all of it")
    add("--limit", type=positive_float, default=60.0, help="seconds for one contender")
    add("--only", nargs="+", choices=every, default=every, metavar="CONTENDER")
    add("--job", help="what a process of its own is told; not for people")
    args = parser.parse_args()
    if args.job:
        do_job(SimpleNamespace(**json.loads(args.job)))
        return
    args.use_gpu = torch.cuda.is_available()
    with tempfile.TemporaryDirectory() as folder:
        parameters = write_inputs(Path(folder), sizes_of(args))
        rows = measure(args, Path(folder))
    add_shares(rows, parameters)
    device = speed.kind_of_machine(args.use_gpu)
    write_json(args.out, {"device": device, "torch": torch.__version__, "rows": rows})
    keys = list(dict.fromkeys(key for row in rows for key in row))
    shown = ([f"{row.get(key, ''):.4g}" if isinstance(row.get(key), float) else row.get(key, "")
              for key in keys] for row in rows)  # fmt: skip
    print_table(f"{device}, torch {torch.__version__}; a second", keys, shown)


if __name__ == "__main__":
    run_script(main)
