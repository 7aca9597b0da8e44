"""What a run prints, writes and draws: the table, metrics.json and curves.png."""

from __future__ import annotations

import json
from pathlib import Path

from pretraining.flags import PretrainingFlags
from training.files.writing import atomic_write, write_json
from training.loop import Run
from training.loop.progress import minutes, say


class Tables:
    """Two tables, of training every --log_every steps and of held-out text; tokens read so far."""

    def __init__(self):
        self.training: list[dict] = []
        self.held_out: list[dict] = []
        self.tokens = 0

    def state_dict(self) -> dict:
        """What a resumed run needs."""
        return vars(self)

    def load_state_dict(self, state: dict) -> None:
        """Continue from a saved state."""
        self.__dict__.update(state)


def print_header(args: PretrainingFlags, batches: int) -> None:
    """Print how long the run is, and the header of the table."""
    epochs = ""
    if args.minutes:
        length = minutes(60 * args.minutes)
    else:
        length, epochs = f"{args.steps:,} steps", f" ({args.steps / batches:.2f} epochs)"
    print(
        f"plan: {length} of {args.batch_size} rows of up to {args.length} tokens{epochs}, "
        f"lr {args.lr:g}, an evaluation on held-out text every {args.eval_every:,} steps"
    )
    pair = "" if args.objective == "none" else f"  {args.objective} loss   acc"
    print(f"   step  mlm loss    acc{pair}   tokens/s   time left")


def print_row(args: PretrainingFlags, run: Run, tables: Tables, step: int) -> None:
    """Print a row of the table, of means since the last row, and keep it."""
    row = {"step": step} | {name: mean for name, mean in run.means().items() if name != "loss"}
    run.record.sums = {}
    tables.training.append(row)
    pair = ""
    if args.objective != "none":
        pair = f"  {row[f'{args.objective}_loss']:8.3f} {row[f'{args.objective}_acc']:.3f}"
    say(
        f"{step:7d}  {row['mlm_loss']:8.3f}  {row['mlm_acc']:.3f}{pair}"
        f" {tables.tokens / run.progress.seconds():10,.0f}  {minutes(run.progress.left()):>10}"
    )


def print_held_out(row: dict, entropy: float, objective: str) -> None:
    """Print the result of an evaluation on held-out text."""
    pair = "" if objective == "none" else f", {objective} accuracy {row[f'{objective}_acc']:.3f}"
    say(
        f"held-out text at step {row['step']}: mlm loss {row['mlm_loss']:.3f} (unigram "
        f"entropy {entropy:.3f}), perplexity {row['perplexity']:.1f}, "
        f"accuracy {row['mlm_acc']:.3f}{pair}"
    )


def write_report(
    args: PretrainingFlags, tables: Tables, entropy: float | None, seconds: float
) -> None:
    """Write metrics.json and the curves of the run so far."""
    metrics = {
        "best": min(tables.held_out, key=lambda row: row["mlm_loss"], default=None),
        "unigram_entropy": entropy,
        "held_out": tables.held_out,
        "training": tables.training,
        "seconds": round(seconds, 1),
        "args": json.loads(json.dumps(vars(args), default=str)),  # paths as text
    }
    write_json(args.out / "metrics.json", metrics)
    plot(args.out / "curves.png", tables.training, tables.held_out, entropy, args.objective)


def plot(
    path: Path, rows: list[dict], held_out: list[dict], entropy: float | None, objective: str
) -> None:
    """A PNG: the loss of masked words with the unigram entropy, and the accuracies, by step."""
    from matplotlib.figure import Figure  # here, because importing it takes long

    figure = Figure(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw(left, rows, held_out, "mlm_loss", "masked words", "C0")
    if entropy is not None:
        left.axhline(entropy, color="gray", ls=":", label="unigram entropy, held-out")
    draw(right, rows, held_out, "mlm_acc", "masked words", "C0")
    if objective != "none":
        draw(right, rows, held_out, f"{objective}_acc", objective.upper(), "C1")
    left.set(title="loss of masked words, nats", xlabel="step")
    right.set(title="accuracy", xlabel="step", ylim=(0, 1))
    for axes in (left, right):
        axes.legend(fontsize=8)
    with atomic_write(path, "wb") as file:
        figure.savefig(file, format="png", dpi=120)


def draw(axes, rows: list[dict], held_out: list[dict], key: str, name: str, color: str) -> None:
    """One quantity: a thin line in training, dots on held-out text."""
    for table, style, kind in (
        (rows, {"lw": 0.8, "alpha": 0.6}, "training"),
        (held_out, {"marker": "o", "ms": 3}, "held-out"),
    ):
        if table:
            x, y = zip(*((row["step"], row[key]) for row in table), strict=True)
            axes.plot(x, y, color=color, label=f"{name}, {kind}", **style)
