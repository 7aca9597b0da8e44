"""Draw how often a true difference is resolved, by number of seeds: docs/figures/seeds.svg.

    python docs/seeds_figure.py

Spreads are medians over the techniques of research/experiments/techniques/, from results.jsonl (the
last epoch's differences to the baseline, seed by seed) and example_sd.jsonl.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from scipy.stats import t as student_t

from docs.drawing import Drawing, svg_of
from research.experiments import results
from research.experiments.intervals import LEVEL
from research.experiments.report import read_example_sds, rows_of
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.writing import write_whole

FIGURE = Path(__file__).resolve().parent / "figures" / "seeds.svg"
LINES = (  # what is compared, its baseline and score, a colour
    ("SST from books", "again-sst", "sst", "orange"),
    ("SST from MiniLM", "offline-sst", "sst", "blue"),
    ("three tasks, books", "again-three", "overall", "green"),
)
DIFFERENCE = 0.01  # the true one
SEEDS = range(2, 21)
TRIALS = 40_000
LEFT, RIGHT, TOP, BOTTOM = 70, 600, 110, 400  # where lines are drawn


@dataclass(frozen=True)
class Spread:
    """How much a comparison varies: standard deviations over seeds and over dev examples."""

    title: str
    colour: str
    seeds: float
    examples: float


def measured_spreads() -> list[Spread]:
    """The spread of each of LINES, of which there are results."""
    rows, spreads = rows_of(results.load_results()), []
    for title, baseline, score, colour in LINES:
        over_seeds, over_examples = [], []
        for (base, name, seeds, base_seeds), sds in read_example_sds().items():
            if base == baseline and seeds == base_seeds and score in sds and len(seeds) > 1:
                pair = [rows[of].scores("last")[score] for of in (name, base)]
                over_seeds.append(np.subtract(*pair).std(ddof=1))
                over_examples.append(sds[score])
        if over_seeds:
            medians = float(np.median(over_seeds)), float(np.median(over_examples))
            spreads.append(Spread(title, colour, *medians))
    return spreads


def power(seeds: int, over_seeds: float, over_examples: float, difference=DIFFERENCE) -> float:
    """How often the interval of a comparison with that many seeds excludes 0, in TRIALS.

    Args:
        seeds: of each of both methods, in pairs.
        over_seeds: the standard deviation of a pair's difference.
        over_examples: that of the mean difference over dev sets; 0 for this dev set alone.
    """
    rng = np.random.default_rng(0)
    spread = (over_seeds**2 / seeds + over_examples**2) ** 0.5
    means = rng.normal(difference, spread, TRIALS)
    variance = over_seeds**2 / seeds * rng.chisquare(seeds - 1, TRIALS) / (seeds - 1)
    total = variance + over_examples**2  # and Satterthwaite's degrees of freedom, as intervals.py
    half = student_t.ppf((1 + LEVEL) / 2, total**2 / variance**2 * (seeds - 1)) * total**0.5
    return float((np.abs(means) > half).mean())


def table(spreads: Sequence[Spread]) -> str:
    """Markdown: the power at a few numbers of seeds, on this dev set and on any."""
    shown = (3, 5, 10, 20)
    rows = [
        [f"{spread.title}, {dev_set}", f"{spread.seeds:.4f}", f"{examples:.4f}"]
        + [f"{power(n, spread.seeds, examples):.2f}" for n in shown]
        for spread in spreads
        for dev_set, examples in (("this dev set", 0.0), ("any dev set", spread.examples))
    ]
    return results.markdown(["", "sd, seeds", "sd, examples", *shown], rows)


def figure(d: Drawing, spreads: Sequence[Spread]) -> None:
    """How often a true difference of 0.01 is resolved.

    The number of seeds of each method against the fraction of comparisons whose 95 % interval
    excludes 0. Solid lines: on the same dev set. Dashed lines: on any dev set of this size.
    """

    def place(seeds: float, fraction: float) -> tuple[float, float]:
        x = LEFT + (RIGHT - LEFT) * (seeds - SEEDS[0]) / (SEEDS[-1] - SEEDS[0])
        return x, BOTTOM - (BOTTOM - TOP) * fraction

    for i, spread in enumerate(spreads):
        left, y = 20 + 210 * i, 26
        d.box(left, y - 10, 9, 9, f"{spread.colour} full")
        d.text(left + 18, y + 1, spread.title, "start")
    for left, classes, words in ((20, "", "this dev set"), (230, "dash", "any dev set")):
        d.line([(left, 56), (left + 40, 56)], classes)
        d.text(left + 52, 62, words, "start")
    for fraction in (0, 0.2, 0.4, 0.6, 0.8, 1):
        d.line([place(SEEDS[0], fraction), place(SEEDS[-1], fraction)], "thin")
        d.text(LEFT - 10, place(0, fraction)[1] + 6, f"{fraction:g}", "end quiet")
    for seeds in (2, 3, 5, 7, 10, 15, 20):
        d.text(place(seeds, 0)[0], BOTTOM + 26, str(seeds), "quiet")
    d.text((LEFT + RIGHT) / 2, BOTTOM + 54, "seeds of each method")
    for spread in spreads:
        for examples, classes in ((0.0, ""), (spread.examples, " dash")):
            points = [place(n, power(n, spread.seeds, examples)) for n in SEEDS]
            d.line(points, spread.colour + classes)


def main() -> None:
    """Draw the figure, and print the numbers."""
    spreads = measured_spreads()
    if not spreads:
        command = "python research/experiments/run.py research/experiments/techniques/again-*.toml"
        raise InputError(f"no results yet; {command}")
    write_whole(FIGURE, svg_of(figure, spreads))
    print(table(spreads))
    print(f"wrote {FIGURE}")


if __name__ == "__main__":
    run_script(main)
