"""How fast and how lean pre-training is, beside a plain loop with transformers.

    python -P research/benchmarks/pretraining_speed.py --text BOOKS --vocab all-MiniLM-L6-v2
    python -P research/benchmarks/pretraining_speed.py --text BOOKS --vocab all-MiniLM-L6-v2 --only memory

Prints Markdown tables:
    speed    the same rows, the same shape of model, in turns, a process each: ours (the steps of
             pretrain.py: batches by length, decoder at the masked positions, our AdamW);
             transformers' (its model and its collator, batches by chance padded to the longest,
             fp32, torch's AdamW; every step with its clipping and schedule). Pieces a second count
             what is no padding, without what comes before the first step.
    memory   the peak of a short run of pretrain.py on N sentences and on ten times as many, with
             the corpus to build and with it ready: all that is resident, and of it what is not
             pages of files, which the system takes back when it wants them
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
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
from pretraining.masking import IGNORED
from pretraining.model import PretrainingModel
from pretraining.presets import PRESETS, preset
from research.benchmarks.speed import print_table, ratios, run_alone, spread
from tokenizer import BertTokenizer
from training.cli.arguments import OneLineParser, positive_int
from training.cli.scripts import run_script
from training.files.hub import find_model
from training.loop.batches import LengthBatches
from training.loop.devices import autocast_for, keep_freed_memory, speed_up
from training.loop.schedule import linear_factor, set_learning_rates
from utils import seed_everything

WARM_UP = 3  # steps before the clock starts

# ---------------------------------------------------------------------------------------------
# The two contenders, each in a process of its own


def rows_of(job: SimpleNamespace) -> tuple[PretrainingExamples, BertTokenizer]:
    """The rows both train on."""
    tokenizer = BertTokenizer.from_pretrained(job.vocab)
    corpus = build(job.text, tokenizer, job.corpus, limit=job.limit)
    return PretrainingExamples(corpus, tokenizer, job.objective, job.length, seed=0), tokenizer


def ours(job: SimpleNamespace) -> tuple[int, float]:
    """pretrain.py's step, on batches by length → word pieces and seconds."""
    keep_freed_memory()
    device = torch.device("cuda" if job.use_gpu else "cpu")
    examples, tokenizer = rows_of(job)
    config = preset(job.preset, vocab_size=len(tokenizer))
    model = PretrainingModel(config, job.objective).to(device).train()
    optimizer = AdamW(pretrain.weight_decay_groups(model, 0.01), lr=job.lr)
    speed_up(model, optimizer)
    autocast = autocast_for(device, "auto")
    batches = LengthBatches(examples.lengths(), job.batch_size, seed=0)
    clock = Clock(job)
    for step, rows in zip(range(job.steps + WARM_UP), batches, strict=False):
        batch = examples.collate_fn([examples[i] for i in rows])
        optimizer.zero_grad()
        masked = max(1, int((batch["labels"] != IGNORED).sum()))
        with autocast():
            tensors = (batch[key].to(device) for key in KEYS)
            words, pairs = pretraining_losses(model, *tensors)
        (words.loss / masked + pairs.loss / len(rows)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        factor = linear_factor(step, job.steps + WARM_UP, 0.1, True)
        set_learning_rates(optimizer, factor)
        optimizer.step()
        clock.tick(step, batch["attention_mask"])
    return clock.found()


def plain(job: SimpleNamespace) -> tuple[int, float]:
    """A loop as many write it with transformers → word pieces and seconds."""
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
    values = preset(job.preset, vocab_size=len(tokenizer)).to_dict()
    config = TheirConfig(**values)
    kind = BertForMaskedLM if job.objective == "none" else BertForPreTraining
    model = kind(config).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=job.lr, weight_decay=0.01)
    order = torch.randperm(len(examples), generator=torch.Generator().manual_seed(0)).tolist()
    clock = Clock(job)
    for step in range(job.steps + WARM_UP):
        start = step * job.batch_size % len(order)
        rows = [examples[i] for i in order[start : start + job.batch_size]]
        batch = collator([{"input_ids": ids, "token_type_ids": types} for ids, types, _ in rows])
        if job.objective != "none":
            batch["next_sentence_label"] = torch.tensor([label for _, _, label in rows])
        optimizer.zero_grad()
        loss = model(**{key: tensor.to(device) for key, tensor in batch.items()}).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = job.lr * linear_factor(step, job.steps + WARM_UP, 0.1, True)
        optimizer.step()
        loss.item()
        clock.tick(step, batch["attention_mask"])
    return clock.found()


class Clock:
    """Word pieces and seconds after the first WARM_UP steps."""

    def __init__(self, job: SimpleNamespace):
        self.on_gpu = job.use_gpu
        self.pieces, self.begun = 0, 0.0

    def tick(self, step: int, attention_mask: torch.Tensor) -> None:
        """A step has ended."""
        if step >= WARM_UP:
            self.pieces += int(attention_mask.sum())
        if step == WARM_UP - 1:
            if self.on_gpu:
                torch.cuda.synchronize()
            self.begun = time.perf_counter()

    def found(self) -> tuple[int, float]:
        """→ (word pieces, seconds)."""
        if self.on_gpu:
            torch.cuda.synchronize()
        return self.pieces, time.perf_counter() - self.begun


CONTENDERS = {"ours": ours, "transformers": plain}


# ---------------------------------------------------------------------------------------------
# Memory


def memory(job: SimpleNamespace) -> dict[str, float]:
    """The peaks of a short run of pretrain.py, in MB: resident, and of it what is no file's."""
    peaks = {"resident": 0.0, "own": 0.0}
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.02):
            status = dict(
                line.split(":", 1)
                for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
            )
            for name, field in (("resident", "VmRSS"), ("own", "RssAnon")):
                peaks[name] = max(peaks[name], int(status[field].split()[0]) / 1024)

    watcher = threading.Thread(target=watch)
    watcher.start()
    line = ["pretrain.py", "--text", *job.text, "--out", job.out, "--corpus", job.corpus]
    line += ["--vocab", job.vocab, "--preset", job.preset, "--objective", job.objective]
    line += ["--length", job.length, "--batch_size", job.batch_size, "--steps", job.steps]
    line += ["--limit", job.limit, "--lr", job.lr, "--held_out", 0.1]
    sys.argv = [*map(str, line), *(["--use_gpu"] if job.use_gpu else [])]
    said, sys.stdout = sys.stdout, sys.stderr
    try:
        pretrain.main()
    finally:
        stop.set()
        watcher.join()
        sys.stdout = said
    return peaks


# ---------------------------------------------------------------------------------------------
# The tables


def run_job(args, kind: str, **values) -> dict:
    """A contender, or the memory of a run, in a process of its own."""
    job = vars(args) | values | {"kind": kind}
    return run_alone(kind, Path(__file__).resolve(), "--job", json.dumps(job))


def do_job(text: str) -> None:
    """What the process of its own does."""
    job = SimpleNamespace(**json.loads(text))
    seed_everything(0)
    torch.use_deterministic_algorithms(job.kind != "transformers", warn_only=True)
    if job.kind == "memory":
        found: dict = memory(job)
    else:
        pieces, seconds = CONTENDERS[job.kind](job)
        found = {"pieces": pieces, "seconds": seconds}
    print(json.dumps(found))


def speed_table(args) -> None:
    """In turns; the ratio is taken turn by turn."""
    rates: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    for _ in range(args.repeats):
        for name in CONTENDERS:
            found = run_job(args, name)
            rates[name].append(found["pieces"] / found["seconds"])
    table = [(name, spread(found, 0)) for name, found in rates.items()]
    table.append(("ours / transformers", ratios(*rates.values())))
    shape = f"{args.steps} steps of {args.batch_size} × {args.length}"
    title = f"{args.preset}, {args.objective}, {shape}, {torch.get_num_threads()} threads"
    print_table(f"Word pieces a second, {title}", ("", "pieces a second"), table)


def memory_table(args) -> None:
    """N sentences, and ten times as many."""
    table = []
    for limit in (args.limit // 10, args.limit):
        folder = f"{args.corpus}-{limit}"
        for when in ("built by this run", "ready"):
            out = tempfile.mkdtemp(dir=args.out)
            found = run_job(args, "memory", limit=limit, corpus=folder, out=out)
            size = (Path(folder) / "ids.bin").stat().st_size / 2**20
            megabytes = (f"{found[kind]:,.0f}" for kind in ("resident", "own"))
            table.append((f"{limit:,}", f"{size:.1f}, {when}", *megabytes))
    header = ("sentences", "tokenized text", "resident", "without pages of files")
    print_table("Peak memory of a run, MB", header, table)


def main() -> None:
    """Print the tables that were asked for."""
    parser = OneLineParser(prog="pretraining_speed.py", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--text", nargs="+", help="text files or folders")
    add("--vocab", help="model whose vocabulary is taken")
    add("--preset", choices=tuple(PRESETS), default="heartbert")
    add("--objective", choices=pretrain.OBJECTIVES, default="nsp")
    add("--length", type=positive_int, default=128)
    add("--batch_size", type=positive_int, default=32)
    add("--steps", type=positive_int, default=20, help="that are measured")
    add("--repeats", type=positive_int, default=3)
    add("--limit", type=positive_int, default=100_000, help="sentences; memory: and a tenth")
    add("--lr", type=float, default=5e-4)
    add("--use_gpu", action="store_true")
    add("--only", choices=("speed", "memory"))
    add("--job", help="what a process of its own is told; not for people")
    args = parser.parse_args()
    if args.job:
        do_job(args.job)
        return
    if not (args.text and args.vocab):
        parser.error("--text and --vocab are needed")
    args.vocab = str(find_model(args.vocab))
    with tempfile.TemporaryDirectory() as folder:
        args.corpus, args.out = f"{folder}/corpus", folder
        if args.only != "memory":
            build(args.text, BertTokenizer.from_pretrained(args.vocab), args.corpus, 0, args.limit)
            speed_table(args)
        if args.only != "speed":
            memory_table(args)


if __name__ == "__main__":
    run_script(main)
