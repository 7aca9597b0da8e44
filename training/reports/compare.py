"""Several runs compared: scores, the settings that differ, F1 by class, curves.

    compare(["predictions/pretrain-sst", "predictions/finetune-sst"], "predictions/compare.html")

It reads what report.py and error_analysis.py wrote, and does not know about models or data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from training.files.course_files import class_names
from training.files.errors import InputError
from training.files.writing import atomic_write
from training.loop.progress import minutes
from training.reports.figures import COLORS, MARKS, new_axes, svg_of
from training.reports.page import WINDOW, template

if TYPE_CHECKING:
    import pandas as pd

METRICS = "metrics.json"
LINES = ("-", "--", ":", "-.")
CLASS = re.compile(r"^ +(\d+) +[\d.]+ +[\d.]+ +([\d.]+) +[\d.]+$", re.MULTILINE)  # number, F1


@dataclass(frozen=True)
class TrainedRun:
    """The results of a run, read from its files.

    Args:
        name: what its files begin with.
        best: the row of its best epoch.
        steps: its steps.csv, if it is there.
        classes: F1 on dev by class.
    """

    name: str
    best: Mapping[str, float]
    epochs: Sequence[Mapping[str, float]]
    settings: Mapping[str, Any]
    seconds: float
    peak_mb: float | None
    steps: pd.DataFrame | None
    classes: Mapping[str, float]


@dataclass(frozen=True)
class Row:
    """A row of a table, with a cell for each run."""

    name: str
    cells: Sequence[str]


# ---------------------------------------------------------------------------------------------
# Reading


def metrics_file(place: str) -> Path:
    """The metrics.json of a run: that file, its folder, or how its files' names begin."""
    inside = sorted(Path(place).glob(f"*{METRICS}")) if Path(place).is_dir() else []
    if len(inside) > 1:
        names = ", ".join(path.name for path in inside)
        raise InputError(f"{place} holds several runs; name one of {names}")
    for path in (*inside, Path(place), Path(f"{place}-{METRICS}"), Path(f"{place}{METRICS}")):
        if path.is_file():
            return path
    raise InputError(f"no run {place}: give its metrics.json, or what its files begin with")


def read_run(place: str) -> TrainedRun:
    """Read a run's files; InputError in one line where they are not a run's."""
    import pandas as pd

    path = metrics_file(place)
    prefix = str(path).removesuffix(METRICS)
    try:
        metrics = json.loads(path.read_text(encoding="utf-8"))
        best, epochs = dict(metrics["best"]), list(metrics["epochs"])
        settings = dict(metrics["args"])
        seconds, peak_mb = float(metrics["seconds"]), metrics.get("peak_mb")
        steps = Path(f"{prefix}steps.csv")
        table = pd.read_csv(steps)[["step", "loss"]] if steps.is_file() else None
    except (ValueError, KeyError, TypeError, OSError) as error:
        what = f"{type(error).__name__} {error}"
        raise InputError(f"{path} does not describe a run: {what}") from error
    name = prefix.rstrip("-") or path.stem
    return TrainedRun(name, best, epochs, settings, seconds, peak_mb, table, read_classes(path))


def read_classes(metrics: Path) -> dict[str, float]:
    """F1 of every class in the reports that belong to a metrics.json."""
    stem, scores_of_classes = metrics.name.removesuffix(METRICS), {}
    settings = json.loads(metrics.read_text(encoding="utf-8"))["args"]
    for path in sorted(metrics.parent.glob("*report.txt")):
        if path.name.startswith(stem):
            task = path.name.removeprefix(stem).removesuffix("report.txt").rstrip("-")
            if task and f"{task}_dev" not in settings:  # another run's, whose name begins alike
                continue
            scores = CLASS.findall(path.read_text(encoding="utf-8"))
            file = str(settings.get(f"{task}_dev" if task else "dev"))
            names = class_names(file, len(scores), None if task else settings.get("labels"))
            for label, score in scores:
                scores_of_classes[f"{task} {names[int(label)]}".strip()] = float(score)
    return scores_of_classes


# ---------------------------------------------------------------------------------------------
# Tables


def score_rows(runs: Sequence[TrainedRun]) -> list[Row]:
    """Scores of the best epochs, with a star at the best on dev; then time and memory."""
    keys = dict.fromkeys(key for run in runs for key in run.best if key != "epoch")
    rows = [Row("best epoch", [f"{run.best.get('epoch', '')}" for run in runs])]
    for key in keys:
        values = [run.best.get(key) for run in runs]
        is_score = not key.endswith("loss") and not key.startswith("train")
        best = max((value for value in values if value is not None), default=None)
        rows.append(Row(key, [starred(value, is_score and value == best) for value in values]))
    rows.append(Row("time", [minutes(run.seconds) for run in runs]))
    rows.append(Row("memory", [f"{run.peak_mb:,.0f} MB" if run.peak_mb else "" for run in runs]))
    return rows


def starred(value: float | None, is_best: bool) -> str:
    """A number with three places, and a star at the best."""
    return "" if value is None else f"{value:.3f}{'*' if is_best else ''}"


def setting_rows(runs: Sequence[TrainedRun]) -> list[Row]:
    """The settings that differ between the runs."""
    keys = dict.fromkeys(key for run in runs for key in run.settings)
    rows = [Row(key, [setting_cell(run.settings.get(key)) for run in runs]) for key in keys]
    return [row for row in rows if len(set(row.cells)) > 1]


def setting_cell(value: Any) -> str:
    """A setting as a cell; a path is cut to its name."""
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return Path(text).name if "/" in text else text


def class_rows(runs: Sequence[TrainedRun]) -> list[Row]:
    """F1 of every class, from the second run on with its difference to the first run's."""
    rows = []
    for name in dict.fromkeys(name for run in runs for name in run.classes):
        baseline, cells = runs[0].classes.get(name), []
        for run in runs:
            score = run.classes.get(name)
            cells.append(starred(score, False))
            if run is not runs[0] and None not in (score, baseline):
                cells[-1] += f" ({score - baseline:+.3f})"
        rows.append(Row(name, cells))
    return rows


def print_table(title: str, rows: Sequence[Row]) -> None:
    """Print a table with a column for each run."""
    left = max(len(row.name) for row in rows)
    width = max(len(cell) for row in rows for cell in row.cells) + 2
    print(f"\n{title}")
    for row in rows:
        print(f"  {row.name:<{left}}{''.join(f'{cell:>{width}}' for cell in row.cells)}")


# ---------------------------------------------------------------------------------------------
# Curves


def curves_of(
    runs: Sequence[TrainedRun], labels: tuple[str, str], points: Callable[[TrainedRun], Any]
) -> str:
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
                label=f"{i + 1} {run.name}",
            )
    axes.legend(frameon=False, fontsize=8)
    return svg_of(figure)


def loss_of(run: TrainedRun) -> Any:
    """Steps and the running mean of their losses."""
    if run.steps is None:
        return None
    return run.steps["step"], run.steps["loss"].rolling(WINDOW, min_periods=1).mean()


def score_of(key: str) -> Callable[[TrainedRun], Any]:
    """A function that gives a run's epochs and their scores."""

    def points(run: TrainedRun) -> Any:
        rows = [row for row in run.epochs if key in row]
        return ([row["epoch"] for row in rows], [row[key] for row in rows]) if rows else None

    return points


def pictures_of(runs: Sequence[TrainedRun]) -> list[tuple[str, Markup]]:
    """The losses by step, and each score on dev by epoch."""
    pictures = [(f"Training loss, mean of {WINDOW} steps", ("step", "loss"), loss_of)]
    for key in dict.fromkeys(key for run in runs for key in run.best):
        if key != "epoch" and not key.startswith("train") and not key.endswith("loss"):
            pictures.append((f"{key} by epoch", ("epoch", key), score_of(key)))
    return [(name, Markup(curves_of(runs, labels, points))) for name, labels, points in pictures]


# ---------------------------------------------------------------------------------------------


def compare(places: Sequence[str], out: str) -> None:
    """Print the tables of some runs, and write them and the curves as one page."""
    runs = [read_run(place) for place in places]
    for number, run in enumerate(runs, start=1):
        print(f"{number}  {run.name}")
    tables = {
        "Scores": score_rows(runs),
        "Settings that differ": setting_rows(runs),
        "F1 by class": class_rows(runs),
    }
    tables = {name: rows for name, rows in tables.items() if rows}
    numbers = Row("", [str(number) for number in range(1, len(runs) + 1)])
    for name, rows in tables.items():
        print_table(name, [numbers, *rows])
    page = template("compare.html")
    with atomic_write(out) as file:
        file.write(page.render(runs=runs, tables=tables.items(), pictures=pictures_of(runs)))
    print(f"\nwrote {out}")
