"""How fast pre-training is, compared with a plain loop with transformers.

    python -P research/benchmarks/pretraining_speed.py --text BOOKS --vocab all-MiniLM-L6-v2

The same rows, the same shape of model, in turns, a process each: ours with --fast (the steps of
pretrain.py: batches by length, decoder at the masked positions, our AdamW); transformers' (its
model and its collator, random batches padded to the longest, fp32, torch's AdamW; every step with
its clipping and schedule). Prints tokens a second; padding, and what comes before the first step,
do not count.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import torch

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from optimizer import AdamW
from pretraining import pretrain
from pretraining.building import build
from pretraining.examples import PretrainingExamples
from pretraining.losses import KEYS, pretraining_losses
from pretraining.model import OBJECTIVES, PretrainingModel
from pretraining.presets import PRESETS, preset
from research.benchmarks import timing
from tokenizer import BertTokenizer
from training.cli.flags import OneLineParser, positive_int
from training.cli.scripts import run_script
from training.files.hub import find_model
from training.loop.batches import LengthBatches, micro_batches
from training.loop.devices import autocast_for, keep_freed_memory, speed_up
from training.loop.run import linear_factor

WARM_UP = 3  # steps before the clock starts

# ---------------------------------------------------------------------------------------------
# The two contenders, each in a process of its own


def rows_of(job: SimpleNamespace) -> tuple[PretrainingExamples, BertTokenizer]:
    """The rows both train on."""
    tokenizer = BertTokenizer.from_pretrained(job.vocab)
    corpus = build(job.text, tokenizer, job.corpus, limit=job.limit)
    return PretrainingExamples(corpus, tokenizer, job.objective, job.length, seed=0), tokenizer


def ours(job: SimpleNamespace) -> dict:
    """pretrain.py's step, on batches by length → tokens and seconds."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    keep_freed_memory()
    device = torch.device("cuda" if job.use_gpu else "cpu")
    examples, tokenizer = rows_of(job)
    config = preset(job.preset, vocab_size=len(tokenizer))
    model = PretrainingModel(config, job.objective).to(device).train()
    optimizer = AdamW(pretrain.weight_decay_groups(model, 0.01), lr=job.lr)
    speed_up(model, optimizer)
    autocast = autocast_for(device, "auto")
    batches = itertools.cycle(LengthBatches(examples.lengths(), job.batch_size, seed=0))

    def step(number: int) -> torch.Tensor:
        rows = next(batches)
        batch = examples.collate_fn(examples.rows(rows))
        optimizer.zero_grad()
        with autocast():
            (inputs,) = micro_batches(batch, 1, device, KEYS)
            words, pairs = pretraining_losses(model, *inputs)
        (words.loss / max(1, batch["masked"]) + pairs.loss / len(rows)).backward()
        update(job, number, model, optimizer)
        return batch["attention_mask"]

    return timed_steps(job, step)


def plain(job: SimpleNamespace) -> dict:
    """A loop as many write it with transformers → tokens and seconds."""
    from transformers import BertConfig as TheirConfig
    from transformers import (
        BertForMaskedLM,
        BertForPreTraining,
        BertTokenizerFast,
        DataCollatorForLanguageModeling,
    )

    device = torch.device("cuda" if job.use_gpu else "cpu")
    examples, tokenizer = rows_of(job)
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        collator = DataCollatorForLanguageModeling(BertTokenizerFast.from_pretrained(folder))
    config = TheirConfig(**preset(job.preset, vocab_size=len(tokenizer)).to_dict())
    kind = BertForMaskedLM if job.objective == "none" else BertForPreTraining
    model = kind(config).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=job.lr, weight_decay=0.01)
    order = torch.randperm(len(examples), generator=torch.Generator().manual_seed(0)).tolist()

    def step(number: int) -> torch.Tensor:
        start = number * job.batch_size % len(order)
        rows = [examples[i] for i in order[start : start + job.batch_size]]
        batch = collator([{"input_ids": ids, "token_type_ids": types} for ids, types, _ in rows])
        if job.objective != "none":
            batch["next_sentence_label"] = torch.tensor([label for _, _, label in rows])
        optimizer.zero_grad()
        loss = model(**{key: tensor.to(device) for key, tensor in batch.items()}).loss
        loss.backward()
        update(job, number, model, optimizer)
        loss.item()
        return batch["attention_mask"]

    return timed_steps(job, step)


def update(job: SimpleNamespace, number: int, model: torch.nn.Module, optimizer) -> None:
    """Clip, set the learning rate, and let the optimizer make its step."""
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for group in optimizer.param_groups:
        group["lr"] = job.lr * linear_factor(number, job.steps + WARM_UP, 0.1, True)
    optimizer.step()


def timed_steps(job: SimpleNamespace, step: Callable[[int], torch.Tensor]) -> dict:
    """Seconds and tokens of the steps after the first WARM_UP ones.

    Args:
        step: makes the step of that number, and returns its attention mask.
    """
    tokens = 0

    def work() -> None:
        nonlocal tokens
        for number in range(WARM_UP, WARM_UP + job.steps):
            tokens += int(step(number).sum())

    for number in range(WARM_UP):
        step(number)
    return timing.timed(work, job.use_gpu) | {"tokens": tokens}


CONTENDERS = {"ours": ours, "transformers": plain}


def main() -> None:
    """Print the table."""
    parser = OneLineParser(prog="pretraining_speed.py", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--text", nargs="+", help="text files or folders")
    add("--vocab", help="model whose vocabulary is taken")
    add("--preset", choices=tuple(PRESETS), default="heartbert")
    add("--objective", choices=OBJECTIVES, default="nsp")
    add("--length", type=positive_int, default=128)
    add("--batch_size", type=positive_int, default=32)
    add("--steps", type=positive_int, default=20, help="that are measured")
    add("--repeats", type=positive_int, default=3)
    add("--limit", type=positive_int, default=100_000, help="sentences")
    add("--lr", type=float, default=5e-4)
    add("--use_gpu", action="store_true")
    add("--job", help="what a process of its own is told; not for people")
    args = parser.parse_args()
    if args.job:
        timing.do_job(CONTENDERS, args.job)
        return
    if not (args.text and args.vocab):
        parser.error("--text and --vocab are needed")
    args.vocab = str(find_model(args.vocab))
    with tempfile.TemporaryDirectory() as args.corpus:
        build(args.text, BertTokenizer.from_pretrained(args.vocab), args.corpus, 0, args.limit)
        jobs = {name: vars(args) | {"work": name} for name in CONTENDERS}
        runs = timing.in_turns(Path(__file__).resolve(), jobs, args.repeats)
    rates = {name: [run["tokens"] / run["seconds"] for run in runs[name]] for name in CONTENDERS}
    table = [(name, timing.spread(values, 0)) for name, values in rates.items()]
    table.append(("ours / transformers", timing.ratios(*rates.values())))
    shape = f"{args.steps} steps of {args.batch_size} × {args.length}"
    title = f"{args.preset}, {args.objective}, {shape}, {torch.get_num_threads()} threads"
    timing.print_table(f"Tokens a second, {title}", ("", "tokens a second"), table)


if __name__ == "__main__":
    run_script(main)
