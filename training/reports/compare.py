"""Several runs compared: scores, the settings that differ, curves; from metrics.json, steps.csv.

The command is ``python -m training.reports.compare RUN RUN``; ``--help`` says what a RUN is.
"""

import re
from collections.abc import Iterator, Sequence
from math import isnan
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
from training.reports.page import WINDOW, losses_of, picture, running_mean, style, template

METRICS = "metrics.json"
OUTPUT = re.compile(r"(^|_)out(_|$)|^filepath$")  # settings that only say where results go


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
        rows = {row["epoch"]: row for row in metrics["epochs"]}
        epochs = pd.DataFrame.from_dict(rows, "index", dtype=float).rename_axis("epoch")
        best = {key: float(value) for key, value in metrics["best"].items()}
        run = {"prefix": prefix.rstrip("-") or paths[0].stem, "epochs": epochs, "best": best}
        run |= {"args": dict(metrics["args"]), "seconds": float(metrics["seconds"])}
    with values_of(f"{prefix}steps.csv is not a table of steps", "train again, or delete it"):
        return run | {"steps": losses_of(f"{prefix}steps.csv")}


def is_score(key: str) -> bool:
    """Whether a number of an epoch is a score on dev."""
    return key != "epoch" and not key.startswith("train") and key[-4:] != "loss"


def score_rows(runs: Sequence[dict]) -> dict[str, list[str]]:
    """Scores of the best epochs, with a star at the best on dev; then the time."""
    rows = {"best epoch": [f"{run['best'].pop('epoch', 0):g}" for run in runs]}
    for key, values in pd.DataFrame([run["best"] for run in runs]).items():
        star = {values.max(): "*"} if is_score(key) else {}
        rows[key] = ["" if isnan(v) else f"{v:.3f}{star.get(v, '')}" for v in values]
    return rows | {"time": [minutes(run["seconds"]) for run in runs]}


def setting_rows(runs: Sequence[dict]) -> dict[str, list[str]]:
    """The settings that differ between the runs; a path is cut to its name."""
    rows = {}
    for key in dict.fromkeys(key for run in runs for key in run["args"] if not OUTPUT.search(key)):
        values = [run["args"].get(key) for run in runs]
        texts = [" ".join(map(str, v)) if isinstance(v, list) else str(v) for v in values]
        cells = [Path(text).name if "/" in text else text for text in texts]
        if len(set(cells)) > 1:
            rows[key] = cells
    return rows


def curves(runs: Sequence[dict], ylabel: str, of_runs: Sequence[pd.Series]) -> Markup:
    """A line for each run that has one, over what its series is indexed by."""
    lines = [
        (y, style(i, label=f"{i + 1} · {runs[i]['prefix']}", markevery=len(y) // 8 or 1))
        for i, y in enumerate(of_runs)
        if len(y)
    ]
    return picture(ylabel, lines)


def pictures_of(runs: Sequence[dict]) -> Iterator[tuple[str, Markup]]:
    """The losses by step, and each score on dev by epoch, where a run has more than one."""
    if any(len(run["steps"]) for run in runs):
        means = [running_mean(run["steps"]) for run in runs]
        yield f"Training loss, mean of {WINDOW} steps", curves(runs, "loss", means)
    several = [key for run in runs if len(run["epochs"]) > 1 for key in run["epochs"]]
    for key in filter(is_score, dict.fromkeys(several)):
        scores = [run["epochs"].get(key, pd.Series()) for run in runs]
        yield f"{key} by epoch", curves(runs, key, scores)


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
