"""Several runs compared: scores, the settings that differ, curves.

    compare(["predictions/pretrain-sst", "predictions/finetune-sst"], "predictions/compare.html")

It reads metrics.json and steps.csv, and does not know about models or data.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from training.files.errors import InputError, values_of
from training.files.texts import read_json, read_text
from training.files.writing import write_whole
from training.loop.progress import minutes
from training.reports.figures import COLORS, MARKS, new_axes, svg_of
from training.reports.page import WINDOW, template

if TYPE_CHECKING:
    import pandas as pd

METRICS = "metrics.json"
LINES = ("-", "--", ":", "-.")
WORDS = {"acc": "accuracy", "f1": "F1", "exact": "exact match", "loss": "training loss"}
MAX_NAMED = 3  # settings in a run's name
OUTPUT = re.compile(r"(^|_)out(_|$)|^filepath$")  # settings that only say where results go

Table = Mapping[str, Sequence[str]]  # rows by name, each with a cell for each run


@dataclass(frozen=True)
class TrainedRun:
    """The results of a run: what its files begin with, its metrics.json and its steps.csv."""

    prefix: str
    best: Mapping[str, float]  # the row of its best epoch
    epochs: Sequence[Mapping[str, float]]
    settings: Mapping[str, Any]
    seconds: float
    peak_mb: float
    steps: pd.DataFrame | None
    name: str = ""  # what sets it apart from the others


def metrics_file(place: str) -> Path:
    """The metrics.json of a run: that file, its folder, or how its files' names begin."""
    inside = sorted(Path(place).glob(f"*{METRICS}")) if Path(place).is_dir() else []
    if len(inside) > 1:
        names = ", ".join(path.name for path in inside)
        raise InputError(f"{place} holds several runs; name one of {names}")
    for path in (*inside, Path(place), Path(f"{place}-{METRICS}"), Path(f"{place}{METRICS}")):
        if path.is_file():
            return path
    raise InputError(f"{place} is not a run; give its metrics.json, or what its files begin with")


def read_run(place: str) -> TrainedRun:
    """Read a run's files; InputError in one line where they are not a run's."""
    import pandas as pd

    path = metrics_file(place)
    prefix = str(path).removesuffix(METRICS)
    metrics, steps, table = read_json(path), Path(f"{prefix}steps.csv"), None
    with values_of(f"{path} and its steps.csv do not describe a run", "run it again"):
        best = {key: None if x is None else float(x) for key, x in dict(metrics["best"]).items()}
        best |= {"epoch": int(best["epoch"])} if "epoch" in best else {}
        epochs, settings = [dict(row) for row in metrics["epochs"]], dict(metrics["args"])
        seconds, peak_mb = float(metrics["seconds"]), float(metrics.get("peak_mb") or 0)
        if steps.is_file():
            table = pd.read_csv(io.StringIO(read_text(steps)))[["step", "loss"]].astype(float)
    name = prefix.rstrip("-") or path.stem
    return TrainedRun(name, best, epochs, settings, seconds, peak_mb, table)


# ---------------------------------------------------------------------------------------------
# Tables


def is_score(key: str) -> bool:
    """Whether a number of an epoch is a score on dev."""
    return key != "epoch" and not key.startswith("train") and not key.endswith("loss")


def in_words(key: str) -> str:
    """A metric's name for people: dev_acc is "accuracy on dev"."""
    split, _, metric = key.rpartition("_")
    return WORDS.get(metric, metric) + (f" on {split}" if split else "")


def score_rows(runs: Sequence[TrainedRun]) -> Table:
    """Scores of the best epochs, with a star at the best on dev; then time and memory."""
    rows = {"best epoch": [f"{run.best.get('epoch', '')}" for run in runs]}
    for key in dict.fromkeys(key for run in runs for key in run.best if key != "epoch"):
        values = [run.best.get(key) for run in runs]
        best = max(value for value in values if value is not None)
        stars = ["*" if is_score(key) and value == best else "" for value in values]
        rows[in_words(key)] = [
            "" if value is None else f"{value:.3f}{star}"
            for value, star in zip(values, stars, strict=True)
        ]
    rows["time"] = [minutes(run.seconds) for run in runs]
    rows["memory"] = [f"{run.peak_mb:,.0f} MB" if run.peak_mb else "" for run in runs]
    return rows


def setting_rows(runs: Sequence[TrainedRun]) -> Table:
    """The settings that differ between the runs."""
    keys = dict.fromkeys(key for run in runs for key in run.settings if not OUTPUT.search(key))
    rows = {key: [setting_cell(run.settings.get(key)) for run in runs] for key in keys}
    return {key: cells for key, cells in rows.items() if len(set(cells)) > 1}


def setting_cell(value: Any) -> str:
    """A setting as a cell; a path is cut to its name."""
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return Path(text).name if "/" in text else text


def named(runs: Sequence[TrainedRun], settings: Table) -> list[TrainedRun]:
    """The runs by what differs; where that is nothing or much, by their files."""
    if settings and len(settings) <= MAX_NAMED:
        cells = zip(*settings.values(), strict=True)
        names = [", ".join(map(" ".join, zip(settings, values, strict=True))) for values in cells]
    else:
        names = [run.prefix for run in runs]
    return [replace(run, name=name) for run, name in zip(runs, names, strict=True)]


def print_table(title: str, rows: Table) -> None:
    """Print a table with a column for each run."""
    left = max(map(len, rows))
    width = max(len(cell) for cells in rows.values() for cell in cells) + 2
    print(f"\n{title}")
    for name, cells in rows.items():
        print(f"  {name:<{left}}{''.join(f'{cell:>{width}}' for cell in cells)}")


# ---------------------------------------------------------------------------------------------
# Curves


def curves_of(
    runs: Sequence[TrainedRun], labels: tuple[str, str], points: Callable[[TrainedRun], Any]
) -> Markup:
    """A figure with a line for each run; ``points`` gives its x and y, or None."""
    figure, axes = new_axes(*labels)
    for i, run in enumerate(runs):
        line = points(run)
        if line is not None:
            axes.plot(
                *line,
                color=COLORS[i % 4],
                linestyle=LINES[i // 4 % 4],
                marker=MARKS[i % 4],
                markevery=1 if len(line[0]) <= 30 else len(line[0]) // 8,
                label=f"{i + 1} · {run.name}",
            )
    axes.legend(frameon=False, fontsize=8)
    return Markup(svg_of(figure))


def loss_of(run: TrainedRun) -> Any:
    """Steps and the running mean of their losses."""
    if run.steps is None:
        return None
    return run.steps["step"], run.steps["loss"].rolling(WINDOW, min_periods=1).mean()


def score_of(run: TrainedRun, key: str) -> Any:
    """Epochs and their scores."""
    rows = [row for row in run.epochs if key in row]
    return ([row["epoch"] for row in rows], [row[key] for row in rows]) if rows else None


def pictures_of(runs: Sequence[TrainedRun]) -> list[tuple[str, Markup]]:
    """The losses by step, and each score on dev by epoch, where a run has more than one."""
    pictures = []
    if any(run.steps is not None for run in runs):
        title = f"Training loss, mean of {WINDOW} steps"
        pictures.append((title, curves_of(runs, ("step", "loss"), loss_of)))
    several = [key for run in runs if len(run.epochs) > 1 for key in run.best]
    for key in filter(is_score, dict.fromkeys(several)):
        labels = ("epoch", in_words(key))
        curves = curves_of(runs, labels, lambda run, key=key: score_of(run, key))
        pictures.append((f"{labels[1]} by epoch".capitalize(), curves))
    return pictures


# ---------------------------------------------------------------------------------------------


def compare(places: Sequence[str], out: str) -> None:
    """Print the tables of some runs, and write them and the curves as one page."""
    runs = [read_run(place) for place in places]
    settings = setting_rows(runs)
    runs = named(runs, settings)
    for number, run in enumerate(runs, start=1):
        print(f"{number}  {run.prefix}")
    tables = {"Scores": score_rows(runs), "Settings that differ": settings}
    tables = {title: rows for title, rows in tables.items() if rows}
    numbers = {"": [str(number) for number in range(1, len(runs) + 1)]}
    for title, rows in tables.items():
        print_table(title, numbers | rows)
    title = f"{len(runs)} runs"
    if settings and len(settings) <= MAX_NAMED:
        title += f" that differ in {', '.join(settings)}"
    page = template("compare.html").render(
        title=title, runs=runs, tables=tables, pictures=pictures_of(runs)
    )
    write_whole(out, page)
    print(f"\nwrote {out}")
