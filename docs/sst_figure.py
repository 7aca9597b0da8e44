"""Draw SST's accuracy by learning rate and by number of labels: docs/figures/sst-*.svg.

    python docs/sst_figure.py

From the runs of research/experiments/sst/*.toml that are in results.jsonl, and from the controls
without BERT. The last epoch counts, on dev, which was not used to select.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from docs.drawing import Drawing, svg_of, ticks
from docs.pretraining_figure import interval, mean_and_sd
from research.experiments import results
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.writing import write_whole

FOLDER = Path(__file__).resolve().parent / "figures"
MODELS = {"books": ("from books", "blue"), "minilm": ("from MiniLM", "orange")}
RATES = {"1e-5": 1e-5, "3e-5": 3e-5, "": 1e-4, "3e-4": 3e-4, "1e-3": 1e-3}  # by variant
SIZES = {"": 100, "300": 300, "1000": 1000, "3000": 3000}
ALL_LABELS, ALL_RUNS = 8544, {"books": "rates-books-3e-4", "minilm": "rates-minilm"}
LEFT, RIGHT, TOP, BOTTOM = 70, 600, 92, 362  # where lines are drawn

Points = dict[float, list[float]]  # rate or number of labels → accuracies


def accuracies(name: str) -> list[float]:
    """The last epoch's accuracy on dev of each seed of a run; a control has one."""
    runs = [result for result in results.load_results() if result["name"] == name]
    return [(run.get("last") or run["metrics"])["dev_acc"] for run in runs]


def measured(kind: str, places: dict[str, float], model: str, end: str = "") -> Points:
    """The accuracies of the variants of KIND-MODEL that were run, by rate or by size."""
    names = {
        x: "-".join(filter(None, (kind, model, variant, end))) for variant, x in places.items()
    }
    if kind == "sizes":
        names[ALL_LABELS] = "rates-books-control" if end else ALL_RUNS[model]
    return {x: scores for x, name in names.items() if (scores := accuracies(name))}


def figure(d: Drawing, axis: str, lines: Sequence[tuple[str, str, Points]]) -> None:
    """SST, five classes: accuracy on dev.

    Means of the last epoch, and 95 % intervals over seeds, on a log scale.
    """
    xs = sorted({x for *_, points in lines for x in points})
    scores = [y for *_, points in lines for ys in points.values() for y in ys]
    values = ticks(min(scores), max(scores))

    def place(x: float, y: float) -> tuple[float, float]:
        across = math.log(x / xs[0]) / max(math.log(xs[-1] / xs[0]), 1e-9)
        up = (y - values[0]) / (values[-1] - values[0])
        return LEFT + 10 + (RIGHT - LEFT - 20) * across, BOTTOM - (BOTTOM - TOP) * up

    for value in values:
        y = place(xs[0], value)[1]
        d.line([(LEFT, y), (RIGHT, y)], "thin")
        d.text(LEFT - 8, y + 6, f"{value:.2f}", "end quiet")
    for x in xs:
        label = f"{x:,.0f}" if x >= 1 else f"{x:.0e}".replace("e-0", "e-")
        d.text(place(x, values[0])[0], BOTTOM + 26, label, "quiet")
    d.text((LEFT + RIGHT) / 2, BOTTOM + 54, axis)
    d.text(20, 30, "accuracy on SST's dev set, five classes", "start bold")
    for i, (label, colour, points) in enumerate(lines):
        d.box(20 + 200 * i, 49, 9, 9, f"{colour} full")
        d.text(38 + 200 * i, 60, label, "start")
        d.line([place(x, float(np.mean(ys))) for x, ys in points.items()], colour)
        for x, ys in points.items():
            mean, half = float(np.mean(ys)), interval(ys)
            at_x, at_y = place(x, mean)
            d.box(at_x - 4, at_y - 4, 8, 8, f"{colour} full")
            d.line([place(x, mean - half), place(x, mean + half)], colour)


def main() -> None:
    """Draw the figures of all runs that are done, and print their numbers."""
    control = ("TF-IDF", "green", measured("sizes", SIZES, "books", "control"))
    for kind, axis, places in (
        ("rates", "learning rate, three epochs", RATES),
        ("sizes", "labels", SIZES),
    ):
        lines = [(*shown, measured(kind, places, model)) for model, shown in MODELS.items()]
        lines = [line for line in lines if line[2]]
        if not lines:
            command = f"python research/experiments/run.py research/experiments/sst/{kind}-*.toml"
            raise InputError(f"no results yet; {command}")
        lines += [control] if kind == "sizes" and control[2] else []
        write_whole(FOLDER / f"sst-{kind}.svg", svg_of(figure, axis, lines))
        xs = sorted({x for *_, points in lines for x in points})
        rows = [[label, *(mean_and_sd(p.get(x, [])) for x in xs)] for label, _, p in lines]
        print(results.markdown(["", *(f"{x:g}" for x in xs)], rows))


if __name__ == "__main__":
    run_script(main)
