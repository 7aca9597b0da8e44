"""Several runs compared: scores, the settings that differ, curves; from metrics.json, steps.csv."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from training.files.errors import InputError
from training.files.texts import read_json
from training.files.writing import write_whole
from training.loop.progress import minutes
from training.reports.figures import picture, style
from training.reports.page import WINDOW, template

METRICS = "metrics.json"
WORDS = {"acc": "accuracy", "f1": "F1", "exact": "exact match", "loss": "training loss"}
MAX_NAMED = 3  # settings in a run's name
OUTPUT = re.compile(r"(^|_)out(_|$)|^filepath$")  # settings that only say where results go

Runs = Sequence[dict[str, Any]]  # what read_run returns
Table = dict[str, list[str]]  # rows by name, each with a cell for each run


def read_run(place: str) -> dict[str, Any]:
    """A run's metrics.json, with "prefix" and "steps"; InputError where it is not a run's.

    Args:
        place: that file, its folder, or how its files' names begin.
    """
    paths = [Path(place), Path(f"{place}-{METRICS}"), Path(f"{place}{METRICS}")]
    paths = [path for path in paths if path.is_file()] or [*Path(place).glob(f"*{METRICS}")]
    if len(paths) != 1:
        what = "is not a run" if not paths else "holds several runs"
        raise InputError(f"{place} {what}; give its metrics.json, or how its files begin")
    run, prefix = read_json(paths[0]), str(paths[0]).removesuffix(METRICS)
    if missing := {"best", "epochs", "args", "seconds"} - run.keys():
        raise InputError(f"{paths[0]} is not a run's: it has no {min(missing)}; run it again")
    steps = Path(f"{prefix}steps.csv")
    run["steps"] = pd.read_csv(steps) if steps.is_file() else None
    return run | {"prefix": prefix.rstrip("-") or paths[0].stem}


def is_score(key: str) -> bool:
    """Whether a number of an epoch is a score on dev."""
    return key != "epoch" and not key.startswith("train") and key[-4:] != "loss"


def in_words(key: str) -> str:
    """A metric's name for people: dev_acc is "accuracy on dev"."""
    split, _, metric = key.rpartition("_")
    return WORDS.get(metric, metric) + (f" on {split}" if split else "")


def score_rows(runs: Runs) -> Table:
    """Scores of the best epochs, with a star at the best on dev; then time and memory."""
    rows = {"best epoch": [str(run["best"].get("epoch", "")) for run in runs]}
    for key in dict.fromkeys(key for run in runs for key in run["best"] if key != "epoch"):
        values = [run["best"].get(key) for run in runs]
        best = max(value for value in values if value is not None) if is_score(key) else None
        cells = ["" if v is None else f"{v:.3f}{'*' * (v == best)}" for v in values]
        rows[in_words(key)] = cells
    rows["time"] = [minutes(run["seconds"]) for run in runs]
    rows["memory"] = [f"{run['peak_mb']:,.0f} MB" if run.get("peak_mb") else "" for run in runs]
    return rows


def setting_rows(runs: Runs) -> Table:
    """The settings that differ between the runs; a path is cut to its name."""
    keys = dict.fromkeys(key for run in runs for key in run["args"] if not OUTPUT.search(key))
    rows = {}
    for key in keys:
        values = [run["args"].get(key) for run in runs]
        texts = [" ".join(map(str, v)) if isinstance(v, list) else str(v) for v in values]
        rows[key] = [Path(text).name if "/" in text else text for text in texts]
    return {key: cells for key, cells in rows.items() if len(set(cells)) > 1}


def pictures_of(runs: Runs) -> Iterator[tuple[str, Markup]]:
    """The losses by step, and each score on dev by epoch, where a run has more than one."""

    def curves(xlabel: str, ylabel: str, points: Sequence[Any]) -> Markup:
        lines = [
            (*point, style(i, label=f"{i + 1} · {run['name']}", markevery=len(point[0]) // 8 or 1))
            for i, (run, point) in enumerate(zip(runs, points, strict=True))
            if len(point[0])
        ]
        return picture(xlabel, ylabel, lines)

    tables = [run["steps"] for run in runs]
    if any(table is not None for table in tables):
        means = [
            ((), ()) if t is None else (t["step"], t["loss"].rolling(WINDOW, min_periods=1).mean())
            for t in tables
        ]
        yield f"Training loss, mean of {WINDOW} steps", curves("step", "loss", means)
    several = [key for run in runs if len(run["epochs"]) > 1 for key in run["best"]]
    for key in filter(is_score, dict.fromkeys(several)):
        rows = [[row for row in run["epochs"] if key in row] for run in runs]
        points = [([row["epoch"] for row in of], [row[key] for row in of]) for of in rows]
        yield f"{in_words(key)} by epoch".capitalize(), curves("epoch", in_words(key), points)


def compare(places: Sequence[str], out: str) -> None:
    """Print the tables of some runs, and write them and the curves as one page."""
    runs = [read_run(place) for place in places]
    settings = setting_rows(runs)
    is_named = 0 < len(settings) <= MAX_NAMED
    for i, run in enumerate(runs):
        differing = ", ".join(f"{key} {cells[i]}" for key, cells in settings.items())
        run["name"] = differing if is_named else run["prefix"]
        print(f"{i + 1}  {run['prefix']}")
    tables = {"Scores": score_rows(runs)} | ({"Settings that differ": settings} if settings else {})
    for title, rows in tables.items():
        table = pd.DataFrame.from_dict(rows, orient="index", columns=range(1, len(runs) + 1))
        print(f"\n{title}\n{table.to_string()}")
    title = f"{len(runs)} runs"
    title += f" that differ in {', '.join(settings)}" if is_named else ""
    pictures = [*pictures_of(runs)]
    page = template("compare.html").render(title=title, runs=runs, tables=tables, pictures=pictures)
    write_whole(out, page)
    print(f"\nwrote {out}")
