"""What the recipes written with Hugging Face's transformers share: flags, batches, the loop.

A recipe imports nothing of this repository but this file. Start it with python -P and outside the
repository's root: our datasets.py would shadow a library that transformers looks for. Needs:
pip install -r requirements-dev.txt
"""

import argparse
import copy
import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from torch import nn

POOL = 50  # how many batches' worth of shuffled rows are sorted by length together


def new_parser(batch_size: int, epochs: int) -> argparse.ArgumentParser:
    """The flags of every recipe."""
    parser = argparse.ArgumentParser()
    add = parser.add_argument
    add("--model", required=True, help="folder or name of the pretrained BERT")
    add("--seed", type=int, default=0)
    add("--lr", type=float, default=5e-5)
    add("--batch_size", type=int, default=batch_size)
    add("--epochs", type=int, default=epochs)
    add("--warmup", type=float, default=0.0, help="fraction of the steps in which the rate rises")
    add("--decay", action="store_true", help="linearly to 0 after the warm-up")
    add("--bf16", action="store_true")
    add("--device", default="cpu")
    add("--limit", type=int, help="first rows of every file")
    add("--out", type=Path, help="where the scores go, as JSON")
    return parser


def by_length(rows: Sequence, batch_size: int, length: Callable) -> Iterator[list]:
    """Batches of rows of like length, in random order: what our own runs do."""
    rows, size = random.sample(rows, len(rows)), POOL * batch_size
    pools = [sorted(rows[i : i + size], key=length) for i in range(0, len(rows), size)]
    batches = [p[i : i + batch_size] for p in pools for i in range(0, len(p), batch_size)]
    yield from random.sample(batches, len(batches))


def fine_tune(
    a: argparse.Namespace,
    model: nn.Module,
    rows: Sequence,
    length: Callable,
    loss_of: Callable,
    evaluate: Callable[[], dict[str, float]],
    best: str,
) -> list[dict[str, float]]:
    """Train; the model ends with the weights of the best epoch on dev.

    Args:
        loss_of: a list of rows → their loss.
        evaluate: scores on dev, printed after every epoch.
        best: the score by which the best epoch is chosen.
    """
    autocast = torch.autocast(torch.device(a.device).type, torch.bfloat16, enabled=a.bf16)
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=a.lr, weight_decay=0.0, eps=1e-6)
    steps = a.epochs * -(-len(rows) // a.batch_size)

    def factor(step: int) -> float:
        if step < a.warmup * steps:
            return step / (a.warmup * steps)
        return (steps - step) / (steps - a.warmup * steps) if a.decay else 1.0

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    history, kept, began = [], {}, time.monotonic()
    for epoch in range(1, a.epochs + 1):
        model.train()
        for batch in by_length(rows, a.batch_size, length):
            with autocast:
                loss = loss_of(batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        model.eval()
        with torch.no_grad(), autocast:
            history.append({"epoch": epoch} | evaluate())
        print(f"seed {a.seed}  {history[-1]}  {time.monotonic() - began:.0f} s", flush=True)
        if history[-1][best] == max(row[best] for row in history):
            kept = copy.deepcopy(model.state_dict())
    model.load_state_dict(kept)
    return history


def write_scores(a: argparse.Namespace, **scores: object) -> None:
    """Write what was measured, if a file was named."""
    if a.out:
        a.out.write_text(json.dumps(scores | {"args": vars(a)}, default=str))
