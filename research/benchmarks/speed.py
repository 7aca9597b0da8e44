"""How fast fine-tuning is here, compared with transformers, alternating on the same sentences.

    python -P research/benchmarks/speed.py --data DIR --model all-MiniLM-L6-v2

Prints Markdown tables, values as median (minimum–maximum) over the repeats:
    ours            classifier.py; --fast takes PyTorch's kernels
    plain           a loop as many write it with transformers: random batches, tokenized each time
    trainer         transformers.Trainer with grouping by length and bf16
Each contender is a process of its own. Its first steps, evaluation and files are not timed. -P
keeps our datasets.py from shadowing a library that Trainer looks for.
Needs: pip install -r requirements-dev.txt accelerate==1.15.0
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from unittest import mock

import pandas as pd
import torch

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

import classifier
from research.experiments.results import machine
from training.cli.flags import OneLineParser, positive_int
from training.cli.scripts import run_script
from training.files.course_files import data_folder
from training.files.errors import InputError
from training.files.hub import find_model
from training.loop.run import Run

LR, MAX_LENGTH, WARM_UP = 5e-5, 512, 5  # the first steps are not timed
DEV = ROOT / "data" / "practice" / "ids-sst-dev.csv"

# ---------------------------------------------------------------------------------------------
# What is timed. A job: contender, model, file, batch, steps, use_gpu. The file has as many rows as
# all steps read, so that every contender sees the same sentences


class Done(Exception):
    """The last step has been made."""


class Clock:
    """Counts the sentences and the seconds of all steps but the first WARM_UP ones."""

    def __init__(self, job: SimpleNamespace):
        self.job, self.step, self.seconds = job, 0, 0.0

    def tick(self) -> None:
        """Call it after every step.

        Raises:
            Done: that was the last one.
        """
        self.step += 1
        if self.step in (WARM_UP, WARM_UP + self.job.steps):
            if self.job.use_gpu:
                torch.cuda.synchronize()
            self.seconds = time.perf_counter() - self.seconds
        if self.step == WARM_UP + self.job.steps:
            raise Done


def ours(job: SimpleNamespace, clock: Clock, *flags: str) -> None:
    """The script itself, with a look at the clock after each of its steps."""
    end_step = Run.end_step

    def end_step_and_tick(run: Run) -> None:
        end_step(run)
        clock.tick()

    options = {"train": job.file, "dev": DEV, "model": job.model, "option": "finetune"}
    options |= {"epochs": 1, "lr": LR, "batch_size": job.batch}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    on_gpu = ["--use_gpu", "--trust_device"] if job.use_gpu else []
    sys.argv = ["classifier.py", *words, *on_gpu, *flags]
    with mock.patch.object(Run, "end_step", end_step_and_tick):
        classifier.main()


def theirs(job: SimpleNamespace) -> tuple:
    """Tokenizer and classifier of transformers with the same weights; texts and labels."""
    sys.path[:] = [folder for folder in sys.path if folder != str(ROOT)]  # where datasets.py is
    from transformers import AutoTokenizer, BertForSequenceClassification

    model = BertForSequenceClassification.from_pretrained(job.model, num_labels=5).train()
    table = pd.read_csv(job.file, sep="\t")
    texts, labels = table["sentence"].tolist(), table["sentiment"].tolist()
    longest = min(MAX_LENGTH, model.config.max_position_embeddings)
    tokenizer = AutoTokenizer.from_pretrained(job.model, model_max_length=longest)
    return tokenizer, model, texts, labels


def plain(job: SimpleNamespace, clock: Clock) -> None:
    """Random batches, tokenized every time, padded to the longest, fp32, torch's AdamW."""
    tokenizer, model, texts, labels = theirs(job)
    device = torch.device("cuda" if job.use_gpu else "cpu")
    model, labels = model.to(device), torch.tensor(labels)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
    for rows in torch.randperm(len(labels)).split(job.batch):
        chosen = [texts[i] for i in rows]
        batch = tokenizer(chosen, padding=True, truncation=True, return_tensors="pt")
        loss = model(**batch.to(device), labels=labels[rows].to(device)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        clock.tick()


def trainer(job: SimpleNamespace, clock: Clock) -> None:
    """transformers.Trainer; texts are tokenized before, outside the time."""
    tokenizer, model, texts, labels = theirs(job)
    from transformers import DataCollatorWithPadding, Trainer, TrainerCallback, TrainingArguments

    class Ticks(TrainerCallback):
        def on_step_end(self, *_: object, **__: object) -> None:
            clock.tick()

    encoded = [
        {**tokenizer(text, truncation=True), "labels": label}
        for text, label in zip(texts, labels, strict=True)
    ]
    arguments = TrainingArguments(
        "trainer", per_device_train_batch_size=job.batch, num_train_epochs=1, learning_rate=LR,
        save_strategy="no", logging_strategy="no", disable_tqdm=True, use_cpu=not job.use_gpu,
        bf16=True, train_sampling_strategy="group_by_length",
    )  # fmt: skip
    collator = DataCollatorWithPadding(tokenizer)
    Trainer(model, arguments, collator, train_dataset=encoded, callbacks=[Ticks()]).train()


def ours_fast(job: SimpleNamespace, clock: Clock) -> None:
    """The script with --fast."""
    ours(job, clock, "--fast")


CONTENDERS = {"ours --fast": ours_fast, "ours": ours, "plain": plain, "trainer": trainer}


def do_job(job: SimpleNamespace) -> None:
    """Run a contender, and print its sentences a second."""
    torch.manual_seed(0)
    clock = Clock(job)
    with suppress(Done):
        CONTENDERS[job.contender](job, clock)
    print(job.batch * job.steps / clock.seconds)


# ---------------------------------------------------------------------------------------------
# Running, and showing what came out


def run_alone(job: dict, folder: Path) -> float:
    """Do a job in a process of its own, whose files go into a folder → sentences a second."""
    command = [sys.executable, "-P", str(Path(__file__).resolve()), "--job", json.dumps(job)]
    offline = os.environ | {"HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env=offline
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise InputError(f"{job['contender']!r} failed: {lines[-1]}")
    print(f"{job['contender']}, batch {job['batch']}: done", file=sys.stderr)
    return float(done.stdout.split()[-1])


def spread(values: Iterable[float], digits: int) -> str:
    """Median (minimum–maximum)."""
    values = list(values)
    shown = (f"{v:,.{digits}f}" for v in (median(values), min(values), max(values)))
    return "{} ({}–{})".format(*shown)


def rows_of(rates: dict[str, list[float]], batch: int) -> Iterable[str]:
    """Markdown: each contender's rates, and how many times the first one is as fast, by round."""
    first, *_ = rates.values()
    for name, own in rates.items():
        factors = (ahead / rate for ahead, rate in zip(first, own, strict=True))
        yield f"| {batch} | {name} | {spread(own, 1)} | {spread(factors, 2)} |"


def write_inputs(args: argparse.Namespace, folder: Path) -> str:
    """The sentences of each batch size → the model's folder."""
    everything = pd.read_csv(data_folder(args.data) / "ids-sst-train.csv", sep="\t", index_col=0)
    for batch in args.batches:
        count = batch * (WARM_UP + args.steps)
        sample = everything.sample(count, replace=count > len(everything), random_state=0)
        sample["id"] = [f"{number:025x}" for number in range(count)]
        sample.reset_index(drop=True).to_csv(folder / f"{batch}.csv", sep="\t")
    return str(find_model(args.model))


def main() -> None:
    """Measure and print the tables."""
    parser = OneLineParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--data", help="folder of the course files ($MINBERT_DATA does the same)")
    add("--model", help="name or folder of the pretrained BERT")
    add("--use_gpu", action="store_true", help="CUDA")
    add("--only", nargs="+", choices=tuple(CONTENDERS), default=[*CONTENDERS], metavar="CONTENDER")
    add("--batches", nargs="+", type=positive_int, default=[8, 32], help="sizes")
    add("--steps", type=positive_int, default=40, help="that are timed")
    add("--repeats", type=positive_int, default=5)
    add("--job", help="what a process of its own is told; not for people")
    args = parser.parse_args()
    if args.job:
        do_job(SimpleNamespace(**json.loads(args.job)))
        return
    print(f"{machine(args.use_gpu)}, {args.repeats} repeats\n")
    print(f"| batch | contender | sentences a second | {args.only[0]} is … × as fast |")
    print("|" + "---|" * 4, flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shared = {"model": write_inputs(args, folder), "use_gpu": args.use_gpu, "steps": args.steps}
        for batch in args.batches:
            job = shared | {"batch": batch, "file": str(folder / f"{batch}.csv")}
            rates: dict[str, list[float]] = {contender: [] for contender in args.only}
            for _ in range(args.repeats):
                for contender, own in rates.items():
                    own.append(run_alone(job | {"contender": contender}, folder))
            print(*rows_of(rates, batch), sep="\n", flush=True)


if __name__ == "__main__":
    run_script(main)
