"""How fast fine-tuning is here, compared with transformers, in turns on the same rows.

    python -P research/benchmarks/speed.py --data DIR --model all-MiniLM-L6-v2
    python -P research/benchmarks/speed.py --data DIR --model all-MiniLM-L6-v2 --only training

Prints Markdown tables, values as median (minimum–maximum) over the repeats:
    training   fine-tuning on SST: ours with --fast; plain, a loop as many write it with
               transformers (random batches, tokenized each time, fp32); grouped,
               transformers.Trainer with grouping by length and bf16
    frozen     --option pretrain: ours, which encodes once, and plain
    length     how a step's cost grows with the length of the sentences
Each contender runs in a process of its own, on the CPU; gpu.py is for a GPU. -P keeps our
datasets.py from shadowing a library that Trainer looks for.
Needs: pip install -r requirements-dev.txt accelerate==1.15.0
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import torch
from torch import Tensor
from torch.nn import functional as F

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from research.benchmarks import timing
from research.benchmarks.timing import peak_memory, print_table, ratios, seconds, spread
from training.cli.flags import OneLineParser, positive_int
from training.cli.scripts import run_script
from training.files.course_files import data_folder
from training.files.hub import find_model
from training.loop.devices import autocast_for, computes_bf16, keep_freed_memory, speed_up

LR = 5e-5
MAX_LENGTH = 512
FROZEN_EPOCHS = 3
LENGTHS = (16, 32, 64, 128, 256, 512)
STEPS, BATCH, WARM_UP = 8, 8, 2  # of a length

# ---------------------------------------------------------------------------------------------
# What is timed, each in a process of its own. A job: file, rows, batch_size, epochs, frozen,
# model, use_gpu


def sample(job: SimpleNamespace) -> tuple[list[str], list[int]]:
    """Random sentences of SST and their labels, the same ones every time."""
    table = pd.read_csv(job.file, sep="\t").sample(job.rows, random_state=0)
    return table["sentence"].tolist(), table["sentiment"].tolist()


def device_of(job: SimpleNamespace) -> torch.device:
    """Where a piece of work computes."""
    return torch.device("cuda" if job.use_gpu else "cpu")


def our_classifier(job: SimpleNamespace) -> tuple:
    """Model, optimizer, autocast and the model's flags, as classifier.train has them."""
    import classifier

    keep_freed_memory()
    option = "pretrain" if job.frozen else "finetune"
    args = classifier.ClassifierFlags(model=job.model, option=option)
    model = classifier.new_model(args, num_labels=5)[0].to(device_of(job))
    optimizer = classifier.AdamW([p for p in model.parameters() if p.requires_grad], lr=LR)
    speed_up(model, optimizer)
    return model, optimizer, autocast_for(device_of(job), "auto"), args


def our_update(model, optimizer, autocast, *batch: Tensor) -> None:
    """A step of classifier.train, without its options."""
    device = next(model.parameters()).device
    ids, mask, labels = (tensor.to(device) for tensor in batch)
    with autocast():
        logits = model(ids, mask)
    F.cross_entropy(logits.float(), labels).backward()
    optimizer.step()
    optimizer.zero_grad()


def ours(job: SimpleNamespace) -> dict:
    """What classifier.train does, without evaluation and files."""
    from datasets import SentenceClassificationDataset
    from training.loop.batches import TrainingLoader
    from training.loop.encoder_outputs import cache_encoder_outputs

    model, optimizer, autocast, args = our_classifier(job)
    numbered = list(zip(*sample(job), range(job.rows), strict=True))
    dataset = SentenceClassificationDataset(numbered, args)
    loader = TrainingLoader(dataset, job.batch_size, seed=0)

    def epoch() -> None:
        for batch in loader:
            tensors = (batch[key] for key in ("token_ids", "attention_mask", "labels"))
            our_update(model, optimizer, autocast, *tensors)

    def train() -> None:
        if job.frozen:
            with autocast():
                cache_encoder_outputs(
                    model, [model.forward], [dataset], job.batch_size, device_of(job)
                )
        model.train()
        for number in range(job.epochs):
            loader.set_epoch(number)
            epoch()

    return timing.timed(train, job.use_gpu)


def their_classifier(job: SimpleNamespace) -> tuple:
    """Tokenizer and classifier of transformers with the same weights."""
    sys.path[:] = [folder for folder in sys.path if folder != str(ROOT)]  # where datasets.py is
    from transformers import AutoTokenizer, BertForSequenceClassification

    model = BertForSequenceClassification.from_pretrained(job.model, num_labels=5)
    model.bert.requires_grad_(not job.frozen)
    return AutoTokenizer.from_pretrained(job.model), model.train().to(device_of(job))


def plain(job: SimpleNamespace) -> dict:
    """Random batches, tokenized every time, padded to the longest, fp32, torch's AdamW."""
    tokenizer, model = their_classifier(job)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=LR)
    texts, labels = sample(job)
    labels = torch.tensor(labels)

    def train() -> None:
        for _ in range(job.epochs):
            for rows in torch.randperm(len(labels)).split(job.batch_size):
                batch = tokenizer(
                    [texts[i] for i in rows], padding=True, truncation=True,
                    max_length=MAX_LENGTH, return_tensors="pt",
                )  # fmt: skip
                batch = batch.to(device_of(job))
                loss = model(**batch, labels=labels[rows].to(device_of(job))).loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

    return timing.timed(train, job.use_gpu)


def grouped(job: SimpleNamespace) -> dict:
    """transformers.Trainer; texts are tokenized before, outside the time."""
    tokenizer, model = their_classifier(job)
    from transformers import DataCollatorWithPadding, Trainer, TrainingArguments

    encoded = [
        {**tokenizer(text, truncation=True, max_length=MAX_LENGTH), "labels": label}
        for text, label in zip(*sample(job), strict=True)
    ]
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, per_device_train_batch_size=job.batch_size, num_train_epochs=job.epochs,
            learning_rate=LR, save_strategy="no", logging_strategy="no", disable_tqdm=True,
            use_cpu=not job.use_gpu, bf16=True, train_sampling_strategy="group_by_length",
        )  # fmt: skip
        collator = DataCollatorWithPadding(tokenizer)
        trainer = Trainer(
            model=model, args=arguments, train_dataset=encoded, data_collator=collator
        )
        return timing.timed(trainer.train, job.use_gpu)


def steps(job: SimpleNamespace) -> dict:
    """Steps of ours on rows of ``length`` random tokens each."""
    model, optimizer, autocast, _ = our_classifier(job)
    ids = torch.randint(1, model.bert.config.vocab_size, (BATCH, job.length))  # (B, L)
    labels = torch.randint(5, (BATCH,))
    model.train()

    def train(count: int) -> None:
        for _ in range(count):
            our_update(model, optimizer, autocast, ids, torch.ones_like(ids), labels)

    train(WARM_UP)
    return timing.timed(partial(train, STEPS), job.use_gpu)


WORK = {
    "ours": ours,
    "plain": plain,
    "grouped": grouped,
    "steps": steps,
}

# ---------------------------------------------------------------------------------------------
# The parts


def kind_of_machine(use_gpu: bool) -> str:
    """The GPU, or what the cores compute in: "x86_64, AVX512, bfloat16, no AMX, 2 threads"."""
    if use_gpu:
        return torch.cuda.get_device_name()
    kinds = [platform.machine(), torch.backends.cpu.get_cpu_capability()]
    kinds.append("bfloat16" if computes_bf16(torch.device("cpu")) else "no bfloat16")
    kinds.append("AMX" if torch.cpu._is_amx_tile_supported() else "no AMX")
    return f"{', '.join(kinds)}, {torch.get_num_threads()} threads"


def in_turns(a: argparse.Namespace, jobs: dict[object, dict]) -> dict[object, list[dict]]:
    """Do all jobs, alternating, each with the model and the rows."""
    shared = {"model": str(a.folder), "use_gpu": False, "file": str(a.file), "rows": a.rows}
    jobs = {key: shared | job for key, job in jobs.items()}
    return timing.in_turns(Path(__file__).resolve(), jobs, a.repeats)


def training(a: argparse.Namespace, frozen: bool = False) -> None:
    """One epoch at batch 8 and 32; or a frozen encoder, at batch 8."""
    names, sizes, epochs = ("ours", "plain", "grouped"), (8, 32), 1
    if frozen:
        names, sizes, epochs = ("ours", "plain"), (8,), FROZEN_EPOCHS
    table = []
    for size in sizes:
        job = {"batch_size": size, "frozen": frozen, "epochs": epochs}
        results = in_turns(a, {name: {**job, "work": name} for name in names})
        for name, runs in results.items():
            rates = (a.rows * epochs / time for time in seconds(runs))
            factor = ratios(seconds(runs), seconds(results["ours"]))
            table.append((size, name, spread(rates), factor, peak_memory(runs)))
    title = f"A frozen encoder, {epochs} epochs" if frozen else "Fine-tuning"
    header = ("batch", "contender", "sentences a second", "ours is … × as fast", "peak MB")
    print_table(f"{title} on SST, {a.rows:,} sentences", header, table)


def length(a: argparse.Namespace) -> None:
    """A training step of sentences of 16 to 512 tokens."""
    jobs = {tokens: {"work": "steps", "frozen": False, "length": tokens} for tokens in LENGTHS}
    table = []
    for tokens, runs in in_turns(a, jobs).items():
        times = [time / STEPS / BATCH for time in seconds(runs)]  # of a sentence
        shown = spread(1e3 * t for t in times), spread(1e6 * t / tokens for t in times)
        table.append((tokens, *shown, peak_memory(runs)))
    header = ("tokens a sentence", "ms a sentence", "µs a token", "peak MB")
    print_table(f"A training step of ours, {BATCH} sentences of one length", header, table)


PARTS = {"training": training, "frozen": partial(training, frozen=True), "length": length}


def main() -> None:
    """Measure what is asked for and print tables."""
    parser = OneLineParser(prog="research/benchmarks/speed.py", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--data", help="folder of the course files ($MINBERT_DATA does the same)")
    add("--model", help="name or folder of the pretrained BERT")
    add("--only", type=lambda text: text.split(","), default=[*PARTS], help="training,frozen,…")
    add("--rows", type=positive_int, default=640, help="of training")
    add("--repeats", type=positive_int, default=5)
    add("--job", help="what a process of its own is told; not for people")
    a = parser.parse_args()
    if a.job:
        timing.do_job(WORK, a.job)
        return
    if unknown := set(a.only) - PARTS.keys():
        parser.error(f"--only {', '.join(sorted(unknown))}: there are {', '.join(PARTS)}")
    a.file = data_folder(a.data).resolve() / "ids-sst-train.csv"
    a.folder = find_model(a.model)
    kind = kind_of_machine(use_gpu=False)
    print(f"{kind}; torch {torch.__version__}, {a.repeats} repeats, {a.folder.name}")
    for name in a.only:
        PARTS[name](a)


if __name__ == "__main__":
    run_script(main)
