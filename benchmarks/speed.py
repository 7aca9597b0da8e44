"""How fast training is, ours beside transformers', in turns on the same rows of one machine.

    python -P benchmarks/speed.py --data DIR --model all-MiniLM-L6-v2

Contenders, each in a process of its own:
    ours      batches by length, texts tokenized once, precision auto, our AdamW
    plain     a loop as many write it with transformers: random batches, tokenized each time, fp32
    trainer   transformers.Trainer with its defaults
    grouped   the same with grouping by length and bf16
and for a frozen encoder (--option pretrain): ours, which encodes once, beside plain. Prints a
Markdown table of sentences a second and of ratios, median (minimum to maximum) over the repeats,
and peak memory. -P keeps our datasets.py from shadowing a library that Trainer looks for. Needs:
pip install -r requirements-dev.txt accelerate
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
import torch

ROOT = Path(__file__).resolve().parent.parent
FINETUNE = ("ours", "plain", "trainer", "grouped")
FROZEN = ("ours", "plain")
LR = 5e-5


def run_ours(rows: pd.DataFrame, a: argparse.Namespace) -> None:
    """The pieces of classifier.train, without evaluation and files."""
    sys.path.insert(0, str(ROOT))
    from torch.nn import functional as F
    from torch.utils.data import DataLoader

    import classifier
    import engine

    device = torch.device("cpu")
    option = "pretrain" if a.frozen else "finetune"
    args = classifier.with_defaults(argparse.Namespace(model=a.model, option=option))
    autocast = engine.autocast_for(device, "auto")
    labelled = zip(rows.sentence, rows.sentiment, rows.id, strict=True)
    dataset = classifier.SentimentDataset(list(labelled), args)
    batches = engine.LengthBatches(dataset.lengths(), a.batch_size, seed=0)
    loader = DataLoader(dataset, batch_sampler=batches, collate_fn=dataset.collate_fn)
    model, _ = classifier.new_model(args, num_labels=5)
    optimizer = classifier.AdamW([p for p in model.parameters() if p.requires_grad], lr=LR)
    yield
    if a.frozen:
        with autocast():
            engine.remember_outputs(model.bert, [dataset], a.batch_size, device)
    model.train()
    for epoch in range(a.epochs):
        batches.begin(epoch)
        for batch in loader:
            optimizer.zero_grad()
            for ids, mask, labels in engine.parts(batch, 1, device):
                with autocast():
                    logits = model(ids, mask)
                F.cross_entropy(logits.float(), labels).backward()
            optimizer.step()


def transformers_model(a: argparse.Namespace):
    """Tokenizer and classifier of transformers with the same weights."""
    from transformers import AutoTokenizer, BertForSequenceClassification

    model = BertForSequenceClassification.from_pretrained(a.folder, num_labels=5)
    if a.frozen:
        model.bert.requires_grad_(False)
    return AutoTokenizer.from_pretrained(a.folder), model.train()


def run_plain(rows: pd.DataFrame, a: argparse.Namespace) -> None:
    """Random batches, tokenized every time, padded to the longest, fp32, torch's AdamW."""
    tokenizer, model = transformers_model(a)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=LR)
    yield
    for epoch in range(a.epochs):
        shuffled = rows.sample(frac=1, random_state=epoch)
        for start in range(0, len(rows), a.batch_size):
            part = shuffled[start : start + a.batch_size]
            batch = tokenizer(
                list(part.sentence), padding=True, truncation=True, max_length=512,
                return_tensors="pt",
            )  # fmt: skip
            loss = model(**batch, labels=torch.tensor(part.sentiment.values)).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def run_trainer(rows: pd.DataFrame, a: argparse.Namespace, **options) -> None:
    """transformers.Trainer; texts are tokenized before, outside the time."""
    from transformers import DataCollatorWithPadding, Trainer, TrainingArguments

    tokenizer, model = transformers_model(a)
    encoded = [
        {**tokenizer(text, truncation=True, max_length=512, padding=False), "labels": label}
        for text, label in zip(rows.sentence, rows.sentiment, strict=True)
    ]
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, per_device_train_batch_size=a.batch_size, num_train_epochs=a.epochs,
            learning_rate=LR, save_strategy="no", logging_strategy="no", disable_tqdm=True,
            use_cpu=True, **options,
        )  # fmt: skip
        trainer = Trainer(
            model=model, args=arguments, train_dataset=encoded,
            data_collator=DataCollatorWithPadding(tokenizer),
        )  # fmt: skip
        yield
        trainer.train()


def contend(a: argparse.Namespace) -> None:
    """One contender in this process: prints its seconds and peak memory as JSON."""
    rows = pd.read_csv(f"{a.data}/ids-sst-train.csv", sep="\t").head(a.rows)
    runs = {
        "ours": lambda: run_ours(rows, a),
        "plain": lambda: run_plain(rows, a),
        "trainer": lambda: run_trainer(rows, a),
        "grouped": lambda: run_trainer(
            rows, a, bf16=True, train_sampling_strategy="group_by_length"
        ),
    }
    torch.manual_seed(0)
    run = runs[a.contender]()
    next(run)  # everything up to its yield is preparation
    begun = time.perf_counter()
    next(run, None)
    seconds = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"rate": a.rows * a.epochs / seconds, "peak": peak}))


def measure(a: argparse.Namespace, frozen: bool, batch_size: int) -> dict[str, list[dict]]:
    """All contenders in turns, ``repeats`` times."""
    names = FROZEN if frozen else FINETUNE
    found: dict[str, list[dict]] = {name: [] for name in names}
    for _ in range(a.repeats):
        for name in names:
            command = [sys.executable, "-P", __file__, "--contender", name, "--data", a.data]
            command += ["--model", a.model, "--folder", a.folder, "--rows", str(a.rows)]
            command += ["--batch_size", str(batch_size), "--epochs", str(3 if frozen else 1)]
            command += ["--frozen"] if frozen else []
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(f"error: {name} failed: {done.stderr.strip().splitlines()[-1]}")
            found[name].append(json.loads(done.stdout.strip().splitlines()[-1]))
    return found


def spread(values: list[float], digits: int = 1) -> str:
    """Median (minimum to maximum)."""
    shown = (f"{v:.{digits}f}" for v in (statistics.median(values), min(values), max(values)))
    return "{} ({} to {})".format(*shown)


def main() -> None:
    """Measure everything and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True, help="folder of ids-sst-train.csv")
    parser.add_argument("--model", required=True)
    parser.add_argument("--folder", help="the model's folder; looked up if not given")
    parser.add_argument("--rows", type=int, default=640)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--batch_size", type=int)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--contender", help=argparse.SUPPRESS)
    parser.add_argument("--frozen", action="store_true", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.contender:
        contend(a)
        return
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import utils; " + (
        f"print(utils.find_model({a.model!r}))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    a.folder = found.stdout.strip().splitlines()[-1]
    print("| run | batch | contender | sentences a second | ours is … times as fast | peak MB |")
    print("|---|---|---|---|---|---|")
    for frozen, batch_size in ((False, 8), (False, 32), (True, 8)):
        results = measure(a, frozen, batch_size)
        ours = [row["rate"] for row in results["ours"]]
        for name, rows in results.items():
            rates = [row["rate"] for row in rows]
            ratios = [mine / theirs for mine, theirs in zip(ours, rates, strict=True)]
            peak = statistics.median(row["peak"] for row in rows)
            kind = "frozen, 3 epochs" if frozen else "finetune"
            print(
                f"| {kind} | {batch_size} | {name} | {spread(rates)} | {spread(ratios, 2)} "
                f"| {peak:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
