"""Draw what the techniques of part 2 bring, from recorded results: docs/techniques.svg.

    python docs/techniques_figure.py

A row is a technique, a mark its difference to the same training without it after the last epoch,
with the 95 % interval of research/experiments/report.py. Runs are those of again-*.toml and
offline-*.toml there, in techniques/.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from docs.drawing import Drawing, svg_of, ticks
from research.experiments import results
from research.experiments.report import Row, intervals_of, rows_of
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.writing import write_whole

FIGURE = Path(__file__).resolve().parent / "techniques.svg"
MODELS = {"again": "blue", "offline": "orange"}  # how a model's runs begin, and its colour
LEFT, RIGHT, ROW = 250, 600, 36  # where intervals are drawn, and a row's height


@dataclass(frozen=True)
class Panel:
    """A task: its score, its baseline's name after that of the model, and techniques' by title."""

    title: str
    score: str
    baseline: str
    variants: dict[str, str]


@dataclass(frozen=True)
class Mark:
    """A technique from one model: its difference and the ends of the interval."""

    title: str
    colour: str
    difference: tuple[float, float, float]


SENTIMENT = {
    "twice the epochs": "double",
    "more pre-training": "tapt",
    "SimCSE": "simcse",
    "SMART": "smart",
    "R-Drop": "r-drop",
    "shapes of words": "shapes",
    "NER as a second task": "ner",
    "LoRA": "lora",
}
SIMILARITY = {
    "twice the epochs": "double",
    "more pre-training": "tapt",
    "SimCSE": "simcse",
    "ranking": "ranking",
    "CoSENT": "cosent",
    "SNLI before": "nli-before",
    "SMART": "smart",
    "linear head, no cosine": "linear",
}
ROUND_ROBIN = {
    "half of the epochs": "half",
    "twice the epochs": "double",
    "annealed sampling": "annealed",
    "PALs": "pals",
    "a top layer for each task": "separate-layers",
    "sum of gradients": "sum",
}
AT_ONCE = {"PCGrad": "pcgrad", "NER as a fourth task": "ner"}
PANELS = (
    Panel("Sentiment, accuracy", "sst", "sst", SENTIMENT),
    Panel("Similarity, Pearson's r", "sts", "sts", SIMILARITY),
    Panel("Three tasks, round-robin, overall score", "overall", "three", ROUND_ROBIN),
    Panel("Three tasks, gradients summed, overall score", "overall", "three-sum", AT_ONCE),
)

# ---------------------------------------------------------------------------------------------
# Results


def marks_of(panel: Panel, rows: dict[str, Row]) -> list[Mark]:
    """Every technique of a panel from every model of which there are runs, in the panel's order."""
    marks = []
    for title, variant in panel.variants.items():
        for model, colour in MODELS.items():
            tasks = panel.baseline.removesuffix("-sum")
            baseline = rows.get(f"{model}-{panel.baseline}")
            row = rows.get(f"{model}-{tasks}-{variant}")
            if baseline and row:
                difference = intervals_of(row, baseline)["last"][panel.score]
                marks.append(Mark(title, colour, difference))
    return marks


# ---------------------------------------------------------------------------------------------
# The figure


def figure(d: Drawing, drawn: Sequence[tuple[str, list[Mark]]]) -> None:
    """What the techniques of part 2 bring.

    A panel per task, a row per technique: its difference to the same training without it after the
    last epoch, from our own model and from MiniLM, with a 95 % interval over seeds and dev
    examples. Where the interval includes 0, the difference is not resolved.
    """
    d.box(20, 20, 9, 9, "blue full")
    d.text(38, 31, "from books", "start")
    d.box(160, 20, 9, 9, "orange full")
    d.text(178, 31, "from all-MiniLM-L6-v2", "start")
    top = 48.0
    for title, marks in drawn:
        draw_panel(d, title, marks, top)
        top = d.bottom + 22


def draw_panel(d: Drawing, title: str, marks: Sequence[Mark], top: float) -> None:
    """One task: names to the left, intervals to the right, a line at 0."""
    titles = list(dict.fromkeys(mark.title for mark in marks))
    ends = [end for mark in marks for end in mark.difference if math.isfinite(end)] + [0.0]
    values = ticks(min(ends), max(ends))
    low, high = values[0], values[-1]
    bottom = top + 44 + ROW * len(titles)

    def x(value: float) -> float:
        return LEFT + (RIGHT - LEFT) * (value - low) / (high - low)

    d.text(20, top + 22, title, "start bold")
    for value in values:
        is_zero = abs(value) < 1e-9
        d.line([(x(value), top + 40), (x(value), bottom)], "" if is_zero else "thin")
        label = "0" if is_zero else f"{value:+.2g}".replace("-", "−")
        d.text(x(value), bottom + 22, label, "quiet")
    for i, name in enumerate(titles):
        middle = top + 44 + ROW * (i + 0.5)
        d.text(20, middle + 6, name, "start")
        here = [mark for mark in marks if mark.title == name]
        for j, mark in enumerate(here):
            y = middle + 10 * (j - (len(here) - 1) / 2)
            difference, first, last = map(x, mark.difference)
            if math.isfinite(last):  # with one seed there are no ends
                d.line([(first, y), (last, y)], mark.colour)
            d.box(difference - 4.5, y - 4.5, 9, 9, f"{mark.colour} full")


def main() -> None:
    """Draw the figure of all runs that are done."""
    rows = rows_of(results.load_results())
    panels = [(panel.title, marks_of(panel, rows)) for panel in PANELS]
    drawn = [(title, marks) for title, marks in panels if marks]
    if not drawn:
        command = "python research/experiments/run.py research/experiments/techniques/again-*.toml"
        raise InputError(f"no results yet; {command}")
    write_whole(FIGURE, svg_of(figure, drawn))
    print(f"wrote {FIGURE}")


if __name__ == "__main__":
    run_script(main)
