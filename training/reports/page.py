"""One page a run, in one file that needs nothing else: curves, classes, mistakes, how it was made.

    write_page(prefix, title, history, args, seconds, peak_mb)            while it trains
    write_page(prefix, title, history, args, seconds, peak_mb, results)   with what it does on dev

The page is written again after each epoch and with each resume point. Curves are SVG by matplotlib,
which draws the other figures, too; a library of charts would be larger than all the rest.
"""

from __future__ import annotations

import functools
import platform
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from training.files.writing import sha256_of, write_whole
from training.loop.progress import minutes
from training.reports.figures import COLORS, MARKS, new_axes, svg_of

if TYPE_CHECKING:
    import pandas as pd

WINDOW = 50  # steps of the running mean
COLUMN_NAMES = {"loss": "loss", "gold": "true", "text_1": "first text", "text_2": "second text"}
DATA_FLAG = re.compile(r"(^|_)(train|dev)$")
# What all pages look like: this one, the grader's, the lesson's
STYLE = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Result:
    """What a model does on the labelled rows of one data set.

    Args:
        name: of the data set.
        y_true, y_pred: classes, or similarities where there are no names.
        classes: their names; empty for similarities.
        mistakes: the table that error_analysis.mistakes_in makes.
        error: the expected calibration error.
    """

    name: str
    y_true: Sequence[float]
    y_pred: Sequence[float]
    classes: Sequence[str]
    mistakes: pd.DataFrame
    error: float

    @property
    def matrix(self) -> list[list[int]]:
        """Counts of rows by true class and predicted class."""
        from sklearn.metrics import confusion_matrix  # here, because importing it takes seconds

        return confusion_matrix(self.y_true, self.y_pred, labels=range(len(self.classes))).tolist()

    @property
    def by_class(self) -> list[dict[str, Any]]:
        """Precision, recall, F1 and the number of rows of each class."""
        from sklearn.metrics import precision_recall_fscore_support

        labels, keys = range(len(self.classes)), ("precision", "recall", "f1", "rows")
        table = precision_recall_fscore_support(
            self.y_true, self.y_pred, labels=labels, zero_division=0
        )
        rows = zip(self.classes, zip(*table, strict=True), strict=True)
        return [{"name": name, **dict(zip(keys, row, strict=True))} for name, row in rows]

    @property
    def score(self) -> str:
        """The main score, with its name."""
        if not self.classes:
            r = np.corrcoef(self.y_true, self.y_pred)[0, 1] if np.ptp(self.y_pred) else 0.0
            return f"Pearson correlation {r:.3f}"
        return f"accuracy {np.equal(self.y_true, self.y_pred).mean():.3f}"


def write_page(
    prefix: str,
    title: str,
    history: Sequence[Mapping[str, float]],
    args: Any,
    seconds: float,
    peak_mb: float | None,
    curves: Mapping[str, str],
    results: Sequence[Result] = (),
) -> None:
    """Write ``prefix``report.html; steps.csv beside it has the steps.

    Args:
        prefix: what the names of the run's files begin with.
        history: a row an epoch.
        args: the flags.
        seconds: since the start.
        peak_mb: memory, where it is known.
        curves: keys of a row to draw, and their names; a task that is not trained has none.
        results: of the dev sets, once the training is over.
    """
    import pandas as pd

    steps = pd.read_csv(f"{prefix}steps.csv") if Path(f"{prefix}steps.csv").is_file() else None
    pictures = []
    if history:
        curves = {key: name for key, name in curves.items() if key in history[0]}
    if steps is not None and len(steps) > 1:
        pictures.append(("Training loss by step", loss_by_step(steps)))
        if steps["lr"].nunique() > 1:
            pictures.append(("Learning rate by step", rate_by_step(steps)))
    if len(history) > 1:
        pictures.append(("Scores by epoch", scores_by_epoch(history, curves)))
    text = template("page.html").render(
        title=title,
        head=head(args, results),
        pictures=[(name, Markup(svg)) for name, svg in pictures],
        history=history,
        columns=["loss", *curves],
        names=COLUMN_NAMES | curves,
        results=results,
        zip=zip,
        facts=facts(args, seconds, peak_mb),
    )
    write_whole(f"{prefix}report.html", text)


@functools.cache
def template(name: str) -> Any:
    """A template in this file's folder; what is filled in is escaped."""
    folder = FileSystemLoader(Path(__file__).parent)
    return Environment(loader=folder, autoescape=True, trim_blocks=True).get_template(name)


def head(args: Any, results: Sequence[Result]) -> dict[str, str]:
    """What a reader asks first: result, model and data."""
    flags = vars(args)
    scores = [f"{one.name}: {one.score} on {len(one.y_true):,} rows of dev" for one in results]
    if len(scores) == 1:
        scores = [scores[0].removeprefix(f"{results[0].name}: ")]
    model = " · ".join(str(flags[name]) for name in ("model", "option") if flags.get(name))
    files = (Path(flags[name]) for name in flags if DATA_FLAG.search(name) and flags[name])
    values = {
        "result": "; ".join(scores) or "still training",
        "model": model,
        "data": ", ".join(f"{path.parent.name}/{path.name}" for path in files),
    }
    return {name: value for name, value in values.items() if value}


def facts(args: Any, seconds: float, peak_mb: float | None) -> dict[str, str]:
    """What is needed to repeat the run, and what it took."""
    flags = {
        name: value
        for name, value in vars(args).items()
        if value not in (None, "", []) and value is not False
    }
    files = [flags[name] for name in flags if DATA_FLAG.search(name)]
    values = {
        "command": shlex.join(["python", *sys.argv]),
        "time": minutes(seconds),
        "memory": f"{peak_mb:,.0f} MB" if peak_mb else "not measured",
        "Python, PyTorch": f"{platform.python_version()}, {torch.__version__}",
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
        "flags": "  ".join(f"{name}={value}" for name, value in flags.items()),
    }
    return values | {str(file): f"sha256 {digest(str(file))}" for file in files}


@functools.cache
def digest(path: str) -> str:
    """The first digits of a file's sha256, enough to tell two files apart."""
    return sha256_of(Path(path))[:16] if Path(path).is_file() else "(no such file)"


# ---------------------------------------------------------------------------------------------
# Curves


def loss_by_step(steps: pd.DataFrame) -> str:
    """Each step's loss, and its running mean."""
    figure, axes = new_axes("step", "loss")
    axes.plot(steps["step"], steps["loss"], color=COLORS[0], alpha=0.25, lw=0.8, label="each step")
    mean = steps["loss"].rolling(WINDOW, min_periods=1).mean()
    axes.plot(steps["step"], mean, color=COLORS[0], lw=2, label=f"mean of {WINDOW} steps")
    axes.legend(frameon=False)
    return svg_of(figure)


def rate_by_step(steps: pd.DataFrame) -> str:
    """The learning rate."""
    figure, axes = new_axes("step", "learning rate")
    axes.plot(steps["step"], steps["lr"], color=COLORS[1], lw=2)
    axes.set_ylim(0, None)
    return svg_of(figure)


def scores_by_epoch(history: Sequence[Mapping[str, float]], curves: Mapping[str, str]) -> str:
    """Scores with a mark each, dashed on the training set; a star at the best one on dev."""
    figure, axes = new_axes("epoch", "score")
    epochs = [row["epoch"] for row in history]
    for i, (key, name) in enumerate(curves.items()):
        values, line = [row[key] for row in history], "--" if key.startswith("train") else "-"
        axes.plot(epochs, values, line, color=COLORS[i % 4], marker=MARKS[i % 4], label=name)
    best = max(history, key=lambda row: row[key])
    axes.plot([best["epoch"]], [best[key]], "*", ms=14, color=COLORS[i % 4], label="best on dev")
    axes.legend(frameon=False)
    return svg_of(figure)
