"""Several runs compared: scores, the settings that differ, curves; from metrics.json, steps.csv.

The command is ``python -m training.reports.compare RUN RUN``; ``--help`` says what a RUN is.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.errors import InputError, values_of
from training.files.texts import read_json
from training.files.writing import write_whole
from training.loop.progress import minutes
from training.reports.figures import picture, style
from training.reports.page import WINDOW, template

METRICS = "metrics.json"
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
    prefix = str(paths[0]).removesuffix(METRICS)
    with values_of(f"{paths[0]} was not written by a run of this version", "train again"):
        metrics = read_json(paths[0])
        run = {
            "prefix": prefix.rstrip("-") or paths[0].stem,
            "best": {key: float(value) for key, value in metrics["best"].items()},
            "epochs": [
                {key: float(row[key]) for key in ("epoch", *row)} for row in metrics["epochs"]
            ],
            "args": dict(metrics["args"]),
            "seconds": float(metrics["seconds"]),
        }
    steps = Path(f"{prefix}steps.csv")
    run["steps"] = pd.DataFrame({"step": [], "loss": []})
    with values_of(f"{steps} is not a table of steps", "train again, or delete it"):
        if steps.is_file():
            run["steps"] = pd.read_csv(steps)[["step", "loss"]].astype(float)
    return run


def is_score(key: str) -> bool:
    """Whether a number of an epoch is a score on dev."""
    return key != "epoch" and not key.startswith("train") and key[-4:] != "loss"


def score_rows(runs: Runs) -> Table:
    """Scores of the best epochs, with a star at the best on dev; then the time."""
    rows = {"best epoch": [f"{run['best'].get('epoch', 0):g}" for run in runs]}
    for key in dict.fromkeys(key for run in runs for key in run["best"] if key != "epoch"):
        values = [run["best"].get(key) for run in runs]
        best = max(value for value in values if value is not None) if is_score(key) else None
        rows[key] = ["" if v is None else f"{v:.3f}{'*' * (v == best)}" for v in values]
    rows["time"] = [minutes(run["seconds"]) for run in runs]
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
            (x, y, style(i, label=f"{i + 1} · {runs[i]['prefix']}", markevery=len(x) // 8 or 1))
            for i, (x, y) in enumerate(points)
            if len(x)
        ]
        return picture(xlabel, ylabel, lines)

    tables = [run["steps"] for run in runs]
    if any(len(steps) for steps in tables):
        means = [(t["step"], t["loss"].rolling(WINDOW, min_periods=1).mean()) for t in tables]
        yield f"Training loss, mean of {WINDOW} steps", curves("step", "loss", means)
    several = [key for run in runs if len(run["epochs"]) > 1 for key in run["best"]]
    for key in filter(is_score, dict.fromkeys(several)):
        rows = [[row for row in run["epochs"] if key in row] for run in runs]
        points = [([row["epoch"] for row in of], [row[key] for row in of]) for of in rows]
        yield f"{key} by epoch", curves("epoch", key, points)


def main() -> None:
    """Print the tables of some runs, and write them and the curves as one page."""
    parser = OneLineParser(description="Compare runs, in the console and on a page.")
    what = "its metrics.json, their folder, or how its files begin"
    parser.add_argument("places", nargs="+", metavar="RUN", help=what)
    parser.add_argument("--out", default="predictions/compare.html", help="the page")
    args = parser.parse_args()
    runs = [read_run(place) for place in args.places]
    for i, run in enumerate(runs, start=1):
        print(f"{i}  {run['prefix']}")
    settings = setting_rows(runs)
    tables = {"Scores": score_rows(runs)} | ({"Settings that differ": settings} if settings else {})
    for title, rows in tables.items():
        table = pd.DataFrame.from_dict(rows, orient="index", columns=range(1, len(runs) + 1))
        print(f"\n{title}\n{table.to_string()}")
    page = template("compare.html").render(runs=runs, tables=tables, pictures=[*pictures_of(runs)])
    write_whole(args.out, page)
    print(f"\nwrote {args.out}")


if __name__ == "__main__":
    run_script(main)
