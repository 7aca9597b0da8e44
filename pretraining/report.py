"""What a run prints and keeps: the table, models and metrics.json."""

from __future__ import annotations

import json
from pathlib import Path

from pretraining.flags import PretrainingFlags
from pretraining.held_out import HeldOut
from pretraining.model import PretrainingModel
from tokenizer import BertTokenizer
from training.files.writing import write_json
from training.loop import Run
from training.loop.processes import gather
from training.loop.progress import minutes, say


class Report:
    """What a run evaluates, prints and writes; run.history has a row for each evaluation."""

    def __init__(self, args: PretrainingFlags, tokenizer: BertTokenizer, held_out: HeldOut):
        self.args, self.tokenizer, self.held_out = args, tokenizer, held_out
        self.prefix = f"{args.out}/"
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
            if run.is_best(-self.measure(run, step)):
                self.save(run.model, self.args.out)
            self.write(run)

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
        run.record.sums = {}
        shown = "  ".join(f"{means[name]:8.3f}" for name in self.columns)
        speed, left = run.notes["tokens"] / run.progress.seconds(), minutes(run.progress.left())
        say(f"{step:8d}  {shown}  {speed:8,.0f}  {left:>9}")

    def measure(self, run: Run, step: int) -> float:
        """The loss of masked words on held-out text, which is printed and kept."""
        measured = gather(self.held_out.measure(run.model, self.args.precision))[0]
        run.history.append({"step": step, "pieces": run.notes["tokens"]} | measured)
        shown = ", ".join(f"{name} {value:.3f}" for name, value in measured.items())
        say(f"held-out text: {shown} (unigram entropy {self.held_out.entropy:.3f})")
        return measured["mlm_loss"]

    def write(self, run: Run) -> None:
        """Write metrics.json of the run so far."""
        metrics = {
            "best": min(run.history, key=lambda row: row["mlm_loss"]),
            "unigram_entropy": self.held_out.entropy,
            "held_out": run.history,
            "seconds": round(run.progress.seconds(), 1),
            "args": json.loads(json.dumps(vars(self.args), default=str)),  # paths as text
        }
        write_json(self.args.out / "metrics.json", metrics)
