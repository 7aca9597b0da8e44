"""What speed.py times, each piece of work in a process of its own.

A function of WORK prepares (loads models, warms up) and returns a function to be timed. Ours is put
on the path only where it runs, because our datasets.py would shadow a library that transformers
looks for.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import Tensor
from torch.nn import functional as F

sys.path.append(str(Path(__file__).resolve().parent))

import timing

ROOT = Path(__file__).resolve().parent.parent.parent
LR = 5e-5
MAX_LENGTH = 512
WARM_UP = 2  # steps before the time of a fixed number of steps is taken

# ---------------------------------------------------------------------------------------------
# Training on texts with labels. Job: texts, labels, batch_size, epochs, frozen, model, folder


def device_of(job: SimpleNamespace) -> torch.device:
    """Where a piece of work computes."""
    return torch.device("cuda" if job.use_gpu else "cpu")


def our_update(model, optimizer, autocast, *batch: Tensor) -> None:
    """A step of classifier.train, without its options."""
    device = next(model.parameters()).device
    ids, mask, labels = (tensor.to(device) for tensor in batch)
    optimizer.zero_grad()
    with autocast():
        logits = model(ids, mask)
    F.cross_entropy(logits.float(), labels).backward()
    optimizer.step()


def our_classifier(job: SimpleNamespace, fast: bool = True) -> tuple:
    """Data set, model, optimizer and autocast, as classifier.train has them."""
    sys.path.insert(0, str(ROOT))
    import classifier
    from training.loop.devices import autocast_for, keep_freed_memory

    keep_freed_memory()
    option = "pretrain" if job.frozen else "finetune"
    args = classifier.ClassifierFlags(model=job.model, option=option)
    texts = getattr(job, "texts", [])
    rows = [(text, job.labels[i], i) for i, text in enumerate(texts)]
    dataset = classifier.SentimentDataset(rows, args)
    model, _ = classifier.new_model(args, num_labels=5)
    device = device_of(job)
    model.to(device)
    optimizer = classifier.AdamW([p for p in model.parameters() if p.requires_grad], lr=LR)
    if fast:
        timing.with_kernels(model, optimizer)
    return dataset, model, optimizer, autocast_for(device, "auto")


def train_ours(
    job: SimpleNamespace, fast: bool = True, compiled: bool = False
) -> Callable[[], None]:
    """The pieces of classifier.train, without evaluation and files.

    Args:
        compiled: with torch.compile, whose time is not counted.
    """
    dataset, model, optimizer, autocast = our_classifier(job, fast)
    from training.loop.batches import TrainingLoader
    from training.loop.encoder_outputs import cache_encoder_outputs

    loader = TrainingLoader(dataset, job.batch_size, seed=0)

    def epoch() -> None:
        for batch in loader:
            tensors = (batch[key] for key in ("token_ids", "attention_mask", "labels"))
            our_update(model, optimizer, autocast, *tensors)

    def train() -> None:
        if job.frozen:
            with autocast():
                cache_encoder_outputs(model.bert, [dataset], job.batch_size, device_of(job))
        model.train()
        for number in range(job.epochs):
            loader.set_epoch(number)
            epoch()

    if compiled:
        model.train().compile()
        epoch()  # which meets every shape
    return train


def their_classifier(job: SimpleNamespace) -> tuple:
    """Tokenizer and classifier of transformers with the same weights."""
    from transformers import AutoTokenizer, BertForSequenceClassification

    model = BertForSequenceClassification.from_pretrained(job.folder, num_labels=5)
    model.bert.requires_grad_(not job.frozen)
    return AutoTokenizer.from_pretrained(job.folder), model.train().to(device_of(job))


def train_plain(job: SimpleNamespace) -> Callable[[], None]:
    """Random batches, tokenized every time, padded to the longest, fp32, torch's AdamW."""
    tokenizer, model = their_classifier(job)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=LR)
    labels = torch.tensor(job.labels)

    def train() -> None:
        for _ in range(job.epochs):
            for rows in torch.randperm(len(labels)).split(job.batch_size):
                batch = tokenizer(
                    [job.texts[i] for i in rows], padding=True, truncation=True,
                    max_length=MAX_LENGTH, return_tensors="pt",
                )  # fmt: skip
                batch = batch.to(device_of(job))
                loss = model(**batch, labels=labels[rows].to(device_of(job))).loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

    return train


def train_trainer(job: SimpleNamespace, **options) -> Callable[[], object]:
    """transformers.Trainer; texts are tokenized before, outside the time."""
    from transformers import DataCollatorWithPadding, Trainer, TrainingArguments

    tokenizer, model = their_classifier(job)
    encoded = [
        {**tokenizer(text, truncation=True, max_length=MAX_LENGTH), "labels": label}
        for text, label in zip(job.texts, job.labels, strict=True)
    ]
    arguments = TrainingArguments(
        job.scratch, per_device_train_batch_size=job.batch_size, num_train_epochs=job.epochs,
        learning_rate=LR, save_strategy="no", logging_strategy="no", disable_tqdm=True,
        use_cpu=not job.use_gpu, **options,
    )  # fmt: skip
    trainer = Trainer(
        model=model, args=arguments, train_dataset=encoded,
        data_collator=DataCollatorWithPadding(tokenizer),
    )  # fmt: skip

    def train() -> None:
        trainer.train()

    return train


def train_steps(job: SimpleNamespace) -> Callable[[], None]:
    """``steps`` steps of ours on ``batch_size`` rows of ``length`` random tokens each."""
    _, model, optimizer, autocast = our_classifier(job)
    shape = (job.batch_size, job.length)
    ids = torch.randint(1, model.bert.config.vocab_size, shape)  # (B, L)
    labels = torch.randint(5, shape[:1])  # (B,)
    model.train()

    def train(steps: int) -> None:
        for _ in range(steps):
            our_update(model, optimizer, autocast, ids, torch.ones_like(ids), labels)

    train(WARM_UP)
    return partial(train, job.steps)


# ---------------------------------------------------------------------------------------------

WORK = {
    "train ours": train_ours,
    "train ours, compiled": partial(train_ours, compiled=True),
    "train as written": partial(train_ours, fast=False),
    "train plain": train_plain,
    "train trainer": train_trainer,
    "train grouped": partial(train_trainer, bf16=True, train_sampling_strategy="group_by_length"),
    "steps": train_steps,
}


def work(job: SimpleNamespace) -> dict:
    """Prepare, then time one piece of work."""
    if hasattr(job, "rows"):
        vars(job).update(json.loads(Path(job.rows).read_text(encoding="utf-8")))
    with tempfile.TemporaryDirectory() as job.scratch:
        return timing.timed(WORK[job.work](job), job.use_gpu)


if __name__ == "__main__":
    timing.do_job(dict.fromkeys(WORK, work), sys.argv[2])
