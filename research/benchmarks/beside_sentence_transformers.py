"""Our dev predictions beside those of sentence_transformers_recipe.py, with a bootstrap interval.

    python research/benchmarks/beside_sentence_transformers.py --task sts --ours OUT-0 OUT-1 OUT-2 \
        --theirs cross-0.json cross-1.json cross-2.json

OUT-0 … are the --out_dir of our runs, one a seed; the JSON files are the recipe's --out. Each side
counts with each seed's best epoch on dev. Prints the means, the difference and its 95 % interval:
examples are drawn with replacement, the same for both, and seeds for each side on its own.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

import numpy as np

from evaluation import COLUMNS
from research.experiments.report import Row, intervals, scores
from training.cli.arguments import OneLineParser
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.predictions import read_predictions

TASKS = {"sts": ("sts", COLUMNS[2]), "quora": ("para", COLUMNS[1])}


def their_row(task: str, files: list[str]) -> tuple[Row, list[str], np.ndarray]:
    """All seeds of the recipe → predictions of the best epochs, the ids, and the labels."""
    predicted, seeds = [], []
    for file in files:
        try:
            saved = json.loads(Path(file).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{file} cannot be read ({error}); run the recipe again") from error
        for run in saved["runs"]:
            best = max(range(len(run["scores"])), key=run["scores"].__getitem__)
            outputs = np.array(run["outputs"][best])  # (N,)
            predicted.append(outputs > 0.5 if task == "para" else outputs)
            seeds.append(run["seed"])
    row = Row("theirs", tuple(seeds), {task: np.stack(predicted).astype(float)}, ())
    return row, saved["ids"], np.array(saved["labels"], dtype=float)


def our_row(task: str, column: str, folders: list[str], ids: list[str]) -> Row:
    """Our prediction files, one folder a seed; named apart, so that seeds are not paired."""
    files = [Path(folder) / f"{task}-dev-output.csv" for folder in folders]
    found = [read_predictions(file, column) for file in files]
    for file, values in zip(files, found, strict=True):
        if values.keys() != set(ids):
            raise InputError(f"{file} holds other ids than the recipe's dev file; use the same")
    predicted = np.array([[values[key] for key in ids] for values in found])  # (S, N)
    return Row("ours", tuple(map(str, folders)), {task: predicted}, ())


def main() -> None:
    """Print the comparison in one line."""
    parser = OneLineParser(
        prog="beside_sentence_transformers.py", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--task", choices=tuple(TASKS), required=True)
    parser.add_argument("--ours", nargs="+", required=True, metavar="FOLDER")
    parser.add_argument("--theirs", nargs="+", required=True, metavar="JSON")
    a: argparse.Namespace = parser.parse_args()
    task, column = TASKS[a.task]
    theirs, ids, labels = their_row(task, a.theirs)
    ours, gold = our_row(task, column, a.ours, ids), {task: labels}
    for row in (ours, theirs):
        each = scores(row, gold)[task][:, 0]
        shown = " ".join(f"{value:.3f}" for value in each)
        print(f"{row.name:7s} mean {each.mean():.3f}   ({shown})")
    difference, low, high = intervals(ours, theirs, gold)[task]
    print(f"difference {difference:+.3f}, 95 % [{low:+.3f}, {high:+.3f}]")


if __name__ == "__main__":
    run_script(main)
