"""What a run prints, keeps and draws: the table, models, metrics.json and curves.png."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pretraining.flags import PretrainingFlags
from pretraining.held_out import HeldOut
from pretraining.model import PretrainingModel
from tokenizer import BertTokenizer
from training.files.writing import atomic_write, write_json
from training.loop import Run, is_main_process
from training.loop.processes import gather
from training.loop.progress import minutes, say


class Report:
    """The tables of a run, which a resume point keeps, and what is made of them.

    Args:
        held_out: None without held-out text; then every evaluation only saves the model.
    """

    def __init__(self, args: PretrainingFlags, tokenizer: BertTokenizer, held_out: HeldOut | None):
        self.args, self.tokenizer, self.held_out = args, tokenizer, held_out
        self.pair = "" if args.objective == "none" else args.objective
        self.tables: dict[str, Any] = {"training": [], "held_out": [], "tokens": 0}  # tokens read

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs."""
        return self.tables

    def load_state_dict(self, tables: dict[str, Any]) -> None:
        """Continue from a saved state."""
        self.tables.update(tables)

    def print_plan(self, batches: int) -> None:
        """Print how long the run is, with ``batches`` in an epoch, and the header of the table."""
        args = self.args
        length = f"{args.steps:,} steps" if args.steps else minutes(60 * args.minutes)
        epochs = f" ({args.steps / batches:.2f} epochs)" if args.steps else ""
        print(
            f"plan: {length} of {args.batch_size} rows of up to {args.length} tokens{epochs}, "
            f"lr {args.lr:g}, an evaluation on held-out text every {args.eval_every:,} steps"
        )
        pair = self.pair and f"  {self.pair} loss   acc"
        print(f"   step  mlm loss    acc{pair}   tokens/s   time left")

    def after_update(self, run: Run, model: PretrainingModel, tokens: int) -> None:
        """Keep the model, print a row, evaluate, each if it is time for it.

        Args:
            tokens: of the batch.
        """
        step, before = run.step + 1, self.tables["tokens"]
        is_last = step == run.total_steps
        self.tables["tokens"] += tokens
        self.keep(model, before)
        if is_last or step % self.args.log_every == 0:
            self.print_row(run, step)
        if is_last or step % self.args.eval_every == 0:
            if self.held_out is None or run.is_best(-self.measure(run, model, step)):
                self.save(model, self.args.out)
            self.write(run.progress.seconds())

    def keep(self, model: PretrainingModel, before: int = -1) -> None:
        """Write OUT/pieces-N for each N of --keep_at that was reached after ``before`` tokens."""
        for count in self.args.keep_at:
            if before < count <= self.tables["tokens"] and is_main_process():
                self.save(model, self.args.out / f"pieces-{count}")

    def save(self, model: PretrainingModel, folder: Path) -> None:
        """Weights, configuration and vocabulary."""
        self.tokenizer.save_pretrained(folder, model.config.max_position_embeddings)
        model.save_pretrained(folder)

    def print_row(self, run: Run, step: int) -> None:
        """Print a row of the table, of means since the last row, and keep it."""
        row = {"step": step} | {name: mean for name, mean in run.means().items() if name != "loss"}
        run.record.sums = {}
        self.tables["training"].append(row)
        pair = self.pair and f"  {row[f'{self.pair}_loss']:8.3f} {row[f'{self.pair}_acc']:.3f}"
        speed, left = self.tables["tokens"] / run.progress.seconds(), minutes(run.progress.left())
        say(
            f"{step:7d}  {row['mlm_loss']:8.3f}  {row['mlm_acc']:.3f}{pair} "
            f"{speed:10,.0f}  {left:>10}"
        )

    def measure(self, run: Run, model: PretrainingModel, step: int) -> float:
        """The loss of masked words on held-out text, which is printed and kept."""
        measured = gather(self.held_out.measure(model, self.args.precision))[0]
        row = {"step": step, "pieces": self.tables["tokens"]} | measured
        self.tables["held_out"].append(row)
        pair = self.pair and f", {self.pair} accuracy {row[f'{self.pair}_acc']:.3f}"
        say(
            f"held-out text at step {step}: mlm loss {row['mlm_loss']:.3f} (unigram "
            f"entropy {self.held_out.entropy:.3f}), perplexity {row['perplexity']:.1f}, "
            f"accuracy {row['mlm_acc']:.3f}{pair}"
        )
        return row["mlm_loss"]

    def write(self, seconds: float) -> None:
        """Write metrics.json and the curves of the run so far."""
        rows, held_out = self.tables["training"], self.tables["held_out"]
        metrics = {
            "best": min(held_out, key=lambda row: row["mlm_loss"], default=None),
            "unigram_entropy": self.held_out and self.held_out.entropy,
            "held_out": held_out,
            "training": rows,
            "seconds": round(seconds, 1),
            "args": json.loads(json.dumps(vars(self.args), default=str)),  # paths as text
        }
        write_json(self.args.out / "metrics.json", metrics)
        self.draw(self.args.out / "curves.png")

    def draw(self, path: Path) -> None:
        """A PNG: the loss of masked words with the unigram entropy, and the accuracies, by step."""
        from matplotlib.figure import Figure  # here, because importing it takes long

        figure = Figure(figsize=(9, 3.8), layout="constrained")
        left, right = figure.subplots(1, 2)
        curves = [
            (left, "mlm_loss", "masked words", "C0"),
            (right, "mlm_acc", "masked words", "C0"),
        ]
        if self.pair:
            curves.append((right, f"{self.pair}_acc", self.pair.upper(), "C1"))
        for axes, key, name, color in curves:
            for kind, marker in (("training", None), ("held_out", "o")):
                x, y = ([row[column] for row in self.tables[kind]] for column in ("step", key))
                axes.plot(x, y, color, lw=0.8, marker=marker, ms=3, label=f"{name}, {kind}")
        if self.held_out:
            left.axhline(self.held_out.entropy, color="gray", ls=":", label="unigram entropy")
        left.set(title="loss of masked words, nats", xlabel="step")
        right.set(title="accuracy", xlabel="step", ylim=(0, 1))
        for axes in (left, right):
            axes.legend(fontsize=8)
        with atomic_write(path, "wb") as file:
            figure.savefig(file, format="png", dpi=120)
