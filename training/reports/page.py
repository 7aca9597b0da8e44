"""One page a run, in one file that needs nothing else: curves, epochs, how it was made.

The page is written again after each epoch and with each resume point.
"""

import functools
import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from training.files.writing import write_whole
from training.loop.progress import minutes
from training.reports.figures import COLORS, picture, style

WINDOW = 50  # steps of the running mean
# What all pages look like: this one, the grader's, the lesson's
STYLE = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")


def write_page(report: Any, run: Any) -> None:
    """Write the page of a ``Run`` so far, as its ``Report`` says; steps.csv next to it is read."""
    history = run.history
    # a task that is not trained has no curve
    curves = {k: name for k, name in report.curves.items() if not history or k in history[0]}
    text = template("page.html").render(
        title=report.title,
        pictures=pictures(f"{report.prefix}steps.csv", history, curves),
        history=history,
        columns=["loss", *curves],
        names={"loss": "loss"} | curves,
        facts=facts(run),
    )
    write_whole(f"{report.prefix}report.html", text)


@functools.cache
def template(name: str) -> Any:
    """A template in this file's folder; what is filled in is escaped."""
    folder = FileSystemLoader(Path(__file__).parent)
    return Environment(loader=folder, autoescape=True, trim_blocks=True).get_template(name)


def facts(run: Any) -> dict[str, str]:
    """What is needed to repeat the run, and what it took."""
    flags = {k: v for k, v in vars(run.args).items() if v not in (None, "", []) and v is not False}
    return {
        "command": shlex.join(["python", *sys.argv]),
        "steps": f"{'stopped at step ' * run.has_failed}{run.step:,} of {run.total_steps:,}",
        "time": minutes(run.progress.seconds()),
        "Python, PyTorch": f"{platform.python_version()}, {torch.__version__}",
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
        "flags": "  ".join(f"{name}={value}" for name, value in flags.items()),
    }


def pictures(
    steps_file: str, history: Sequence[Mapping[str, float]], curves: Mapping[str, str]
) -> list[tuple[str, Markup]]:
    """The loss by step, and the scores by epoch with a star at the best."""
    drawn = []
    steps = pd.read_csv(steps_file) if Path(steps_file).is_file() else ()
    if len(steps) > 1:
        each = {"color": COLORS[0], "alpha": 0.25, "lw": 0.8, "label": "each step"}
        mean = {"color": COLORS[0], "lw": 2, "label": f"mean of {WINDOW} steps"}
        means = steps["loss"].rolling(WINDOW, min_periods=1).mean()
        lines = [(steps["step"], steps["loss"], each), (steps["step"], means, mean)]
        drawn.append(("Training loss by step", picture("step", "loss", lines)))
    if len(history) > 1:
        epochs, lines = [row["epoch"] for row in history], []
        for i, (key, name) in enumerate(curves.items()):
            kind = "--" if key.startswith("train") else "-"
            values = [row[key] for row in history]
            lines.append((epochs, values, style(i, label=name, linestyle=kind)))
        best = max(history, key=lambda row: row[key])
        star = {"marker": "*", "ms": 14, "ls": "", "color": COLORS[i % 4], "label": "best on dev"}
        lines.append(([best["epoch"]], [best[key]], star))
        drawn.append(("Scores by epoch", picture("epoch", "score", lines)))
    return drawn
