"""One page a run, in one file that needs nothing else: curves, epochs, how it was made.

The page is written again after each epoch and with each resume point. Curves are SVG in it.
"""

import functools
import io
import platform
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd
import torch
from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from training.files.writing import write_whole
from training.loop.progress import minutes

WINDOW = 50  # steps of the running mean
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")  # told apart by the colour-blind, too
AS_TYPED = {"text.parse_math": False}  # between two $ matplotlib would read a formula
SVG = {"svg.fonttype": "none", "svg.hashsalt": "minbert"}  # texts as texts, the same bytes again
# What all pages look like: this one, the grader's, the lesson's
STYLE = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")


def write_page(report: Any, run: Any) -> None:
    """Write the page of a ``Run`` so far, as its ``Report`` says; steps.csv next to it is read."""
    history = run.history
    # a task that is not trained has no curve
    curves = {k: name for k, name in report.curves.items() if not history or k in history[0]}
    text = template("page.html").render(
        title=report.title,
        pictures=[*pictures(losses_of(f"{report.prefix}steps.csv"), history, curves)],
        history=history,
        columns={"loss": "loss"} | curves,
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


# ---------------------------------------------------------------------------------------------
# Curves


def losses_of(steps_file: str) -> pd.Series:
    """The loss of every step in a steps.csv; empty without the file."""
    is_there = Path(steps_file).is_file()
    table = pd.read_csv(steps_file) if is_there else pd.DataFrame({"step": [], "loss": []})
    return table.set_index("step")["loss"].astype(float)


def running_mean(losses: pd.Series) -> pd.Series:
    """For each step the mean loss of WINDOW steps up to it, or of all there are."""
    return losses.rolling(WINDOW, min_periods=1).mean()


def pictures(
    losses: pd.Series, history: Sequence[Mapping[str, float]], curves: Mapping[str, str]
) -> Iterator[tuple[str, Markup]]:
    """The loss by step, and the scores by epoch with a star at the best."""
    if len(losses) > 1:
        each = {"color": COLORS[0], "alpha": 0.25, "lw": 0.8, "label": "each step"}
        mean = {"color": COLORS[0], "lw": 2, "label": f"mean of {WINDOW} steps"}
        lines = [(losses, each), (running_mean(losses), mean)]
        yield "Training loss by step", picture("loss", lines)
    if len(history) > 1:
        epochs = pd.DataFrame(history).set_index("epoch")
        lines = [
            (epochs[key], style(i, label=name, ls="--" if key.startswith("train") else "-"))
            for i, (key, name) in enumerate(curves.items())
        ]
        scores, options = lines[-1]
        star = options | {"marker": "*", "ms": 14, "ls": "", "label": "best on dev"}
        yield "Scores by epoch", picture("score", [*lines, (scores[[scores.idxmax()]], star)])


def style(number: int, **options: Any) -> dict[str, Any]:
    """Colour, mark and line of the n-th line."""
    line = {"color": COLORS[number % 4], "marker": "os^D"[number % 4]}
    return line | {"ls": ("-", "--", ":", "-.")[number // 4 % 4], **options}


def picture(ylabel: str, lines: Iterable[tuple[pd.Series, dict[str, Any]]]) -> Markup:
    """Lines in the page's colours, over the index of their series; with options of ``plot``."""
    file = io.StringIO()
    with matplotlib.rc_context(AS_TYPED | SVG):
        figure = Figure(figsize=(4.8, 2.9), layout="constrained")
        axes = figure.subplots()
        for y, options in lines:
            axes.plot(y.index, y, **options)
            axes.set(xlabel=y.index.name, ylabel=ylabel)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8)
        figure.savefig(file, format="svg", metadata={"Date": None}, transparent=True)
    svg = file.getvalue()
    head, rest = svg[svg.index("<svg") :].replace("#000000", "currentColor").split(">", 1)
    return Markup(re.sub(r' (width|height)="[^"]*pt"', "", head) + ">" + rest)
