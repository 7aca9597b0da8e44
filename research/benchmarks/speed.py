"""How fast fine-tuning is here, compared with transformers, alternating on the same sentences.

    python -P research/benchmarks/speed.py --data DIR --model all-MiniLM-L6-v2

Prints a Markdown table, values as median (minimum–maximum) over five repeats:
    ours            classifier.py; --fast takes PyTorch's kernels
    plain           a loop as many write it with transformers: random batches, tokenized each time
    trainer         transformers.Trainer with grouping by length and bf16
Each contender is a process of its own. Its first steps, evaluation and files are not timed. -P
keeps our datasets.py from shadowing a library that Trainer looks for.
Needs: pip install -r requirements-dev.txt accelerate==1.15.0
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout, suppress
from functools import partial
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
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.course_files import data_folder
from training.files.hub import find_model
from training.loop.run import Run

os.environ["HF_HUB_OFFLINE"] = "1"
LR, MAX_LENGTH = 5e-5, 512
BATCHES, REPEATS = (8, 32), 5
WARM_UP, STEPS = 5, 40  # the first steps are not timed
DEV = ROOT / "data" / "practice" / "ids-sst-dev.csv"

# ---------------------------------------------------------------------------------------------
# What is timed. A job: model, file, batch, use_gpu. The file has as many rows as all steps read, so
# that every contender sees the same sentences


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
        if self.step in (WARM_UP, WARM_UP + STEPS):
            if self.job.use_gpu:
                torch.cuda.synchronize()
            self.seconds = time.perf_counter() - self.seconds
        if self.step == WARM_UP + STEPS:
            raise Done


def ours(job: SimpleNamespace, clock: Clock, flag: str = "") -> None:
    """The script itself, with a look at the clock after each of its steps."""
    end_step = Run.end_step

    def end_step_and_tick(run: Run) -> None:
        end_step(run)
        clock.tick()

    options = {"train": job.file, "dev": DEV, "model": job.model, "option": "finetune"}
    options |= {"epochs": 1, "lr": LR, "batch_size": job.batch}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    on_gpu = ["--use_gpu", "--trust_device"] if job.use_gpu else []
    sys.argv = ["classifier.py", *words, *on_gpu, *filter(None, [flag])]
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


CONTENDERS = {"ours --fast": partial(ours, flag="--fast"), "ours": ours}
CONTENDERS |= {"plain": plain, "trainer": trainer}


def rate_of(contender: str, job: SimpleNamespace, folder: Path) -> float:
    """Sentences a second of a contender, whose files go into a folder; in a process of its own."""
    os.chdir(folder)
    torch.manual_seed(0)
    clock = Clock(job)
    with suppress(Done), redirect_stdout(sys.stderr):
        CONTENDERS[contender](job, clock)
    return job.batch * STEPS / clock.seconds


# ---------------------------------------------------------------------------------------------
# Running, and showing what came out


def spread(values: Iterable[float], digits: int) -> str:
    """Median (minimum–maximum)."""
    values = list(values)
    shown = (f"{v:,.{digits}f}" for v in (median(values), min(values), max(values)))
    return "{} ({}–{})".format(*shown)


def rows_of(rates: dict[str, list[float]], batch: int) -> Iterator[str]:
    """Markdown: each contender's rates, and how many times the first one is as fast, by round."""
    first, *_ = rates.values()
    for name, own in rates.items():
        factors = (ahead / rate for ahead, rate in zip(first, own, strict=True))
        yield f"| {batch} | {name} | {spread(own, 1)} | {spread(factors, 2)} |"


def main() -> None:
    """Measure and print the table."""
    parser = OneLineParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--data", help="folder of the course files ($MINBERT_DATA does the same)")
    add("--model", help="name or folder of the pretrained BERT")
    add("--use_gpu", action="store_true", help="CUDA")
    args = parser.parse_args()
    everything = pd.read_csv(data_folder(args.data) / "ids-sst-train.csv", sep="\t", index_col=0)
    shared = {"model": str(find_model(args.model)), "use_gpu": args.use_gpu}
    print(f"{machine(args.use_gpu)}, {REPEATS} repeats\n")
    print(f"| batch | contender | sentences a second | {next(iter(CONTENDERS))} is … × as fast |")
    print("|" + "---|" * 4, flush=True)
    fresh = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder, fresh.Pool(1, maxtasksperchild=1) as pool:
        for batch in BATCHES:
            count, file = batch * (WARM_UP + STEPS), Path(folder, f"{batch}.csv")
            sample = everything.sample(count, replace=count > len(everything), random_state=0)
            sample["id"] = [f"{number:025x}" for number in range(count)]
            sample.reset_index(drop=True).to_csv(file, sep="\t")
            job = SimpleNamespace(**shared, batch=batch, file=str(file))
            rates: dict[str, list[float]] = {contender: [] for contender in CONTENDERS}
            for _ in range(REPEATS):
                for contender, own in rates.items():
                    own.append(pool.apply(rate_of, (contender, job, Path(folder))))
            print(*rows_of(rates, batch), sep="\n", flush=True)


if __name__ == "__main__":
    run_script(main)
