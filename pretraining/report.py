"""What a run measures on text that it is not trained on, prints and keeps."""

from __future__ import annotations

import json
import math
from itertools import islice
from pathlib import Path

import torch

from pretraining.corpus import Corpus, unigram_entropy
from pretraining.examples import PretrainingExamples
from pretraining.flags import PretrainingFlags
from pretraining.masking import KEYS, MASKED, Sums, pretraining_losses
from pretraining.model import PretrainingModel
from tokenizer import BertTokenizer
from training.files.errors import InputError
from training.files.writing import write_json
from training.loop import Run, autocast_for
from training.loop.batches import LengthBatches, to_device
from training.loop.processes import gather
from training.loop.progress import minutes, say


class Report:
    """The table of a run, its models and metrics; run.history has a row for each evaluation.

    An evaluation reads rows of documents that are held out, always with the same masks: of 15 % of
    the tokens, whatever --mask says, so that losses can be compared. Whole batches of about
    ``args.eval_rows`` rows, drawn at random, bound its time.

    Args:
        corpus: the documents that are held out.
    """

    def __init__(self, args: PretrainingFlags, tokenizer: BertTokenizer, corpus: Corpus):
        if corpus.n_tokens < args.length:
            what = f"{corpus.n_tokens:,} tokens, less than a row of {args.length}"
            raise InputError(f"the held-out text has {what}; give more text, or raise --held_out")
        self.args, self.tokenizer, self.prefix = args, tokenizer, f"{args.out}/"
        self.entropy = unigram_entropy(corpus)
        self.examples = PretrainingExamples(args, tokenizer, corpus, MASKED, epoch=0)
        # in random order, so that the first of them are a random choice
        batches = LengthBatches(self.examples.lengths(), args.batch_size, args.seed)
        self.batches = list(islice(batches, math.ceil(args.eval_rows / args.batch_size)))
        heads = ["mlm"] if args.objective == "none" else ["mlm", args.objective]
        self.columns = [f"{head}_{value}" for head in heads for value in ("loss", "acc")]

    def print_table(self, run: Run) -> None:
        """Print how long the run is, and the header of the table."""
        args = self.args
        run.notes.setdefault("tokens", 0)  # that were read
        length = f"{args.steps:,} steps" if args.steps else minutes(60 * args.minutes)
        print(
            f"plan: {length} of {args.batch_size} rows of up to {args.length} tokens, lr "
            f"{args.lr:g}, an evaluation on held-out text every {args.eval_every:,} steps"
        )
        print("  ".join(f"{name:>8}" for name in ("step", *self.columns, "tokens/s", "time left")))

    def draw_page(self, run: Run) -> None:
        """Nothing: only runs of labelled data have a page."""

    def after_update(self, run: Run, tokens: int) -> None:
        """Keep the model, print a row, evaluate, each if it is time; the batch had ``tokens``."""
        step, before = run.step + 1, run.notes["tokens"]
        is_last = step == run.total_steps
        run.notes["tokens"] += tokens
        self.keep(run, before)
        if is_last or step % self.args.log_every == 0:
            self.print_row(run, step)
        if is_last or step % self.args.eval_every == 0:
            self.evaluate(run, step)

    def keep(self, run: Run, before: int = -1) -> None:
        """Write OUT/pieces-N for each N of --keep_at that was reached after ``before`` tokens."""
        for count in self.args.keep_at:
            if before < count <= run.notes["tokens"]:
                self.save(run.model, self.args.out / f"pieces-{count}")

    def save(self, model: PretrainingModel, folder: Path) -> None:
        """Weights, configuration and vocabulary."""
        self.tokenizer.save_pretrained(folder, model.config.max_position_embeddings)
        model.save_pretrained(folder)

    def print_row(self, run: Run, step: int) -> None:
        """Print a row of the table, of means since the last row."""
        means = run.means()
        shown = "  ".join(f"{means[name]:8.3f}" for name in self.columns)
        speed, left = run.notes["tokens"] / run.progress.seconds(), minutes(run.progress.left())
        say(f"{step:8d}  {shown}  {speed:8,.0f}  {left:>9}")

    def evaluate(self, run: Run, step: int) -> None:
        """Measure and keep the model on held-out text, and write metrics.json of the run so far."""
        measured = gather(self.measure(run.model))[0]
        run.history.append({"step": step, "pieces": run.notes["tokens"]} | measured)
        shown = ", ".join(f"{name} {value:.3f}" for name, value in measured.items())
        say(f"held-out text: {shown} (unigram entropy {self.entropy:.3f})")
        if run.is_best(-measured["mlm_loss"]):
            self.save(run.model, self.args.out)
        metrics = {
            "best": min(run.history, key=lambda row: row["mlm_loss"]),
            "unigram_entropy": self.entropy,
            "held_out": run.history,
            "seconds": round(run.progress.seconds(), 1),
            "args": json.loads(json.dumps(vars(self.args), default=str)),  # paths as text
        }
        write_json(self.args.out / "metrics.json", metrics)

    @torch.no_grad()
    def measure(self, model: PretrainingModel) -> dict[str, float]:
        """Losses and accuracies on held-out text, and the perplexity exp(loss) of masked words."""
        device = model.decoder_bias.device
        autocast = autocast_for(device, self.args.precision)
        totals: dict[str, Sums] = {}
        model.eval()
        for rows in self.batches:
            batch = self.examples.batch(rows)
            inputs = [to_device(batch[key], device) for key in KEYS]
            with autocast():
                heads = pretraining_losses(model, *inputs)
            for head, sums in heads.items():
                so_far = totals.get(head, (0, 0, 0))
                totals[head] = Sums(*map(sum, zip(so_far, sums, strict=True)))
        model.train()
        means: dict[str, float] = {}
        for head, total in totals.items():
            means |= {name: value.item() for name, value in total.means(head).items()}
        return means | {"perplexity": math.exp(min(means["mlm_loss"], 700.0))}
