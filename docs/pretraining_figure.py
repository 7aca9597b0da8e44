"""Draw what pre-training buys, from recorded results: two figures, and a table in Markdown.

    python docs/pretraining_figure.py

books-scores.svg has the scores of the runs of research/experiments/books/books-*.toml, which began
with models that had read N tokens, and of their controls; books-loss.svg has the loss of the long
run on held-out text. Scores are those of the last epoch, on dev, which was not used to select.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from docs.drawing import Drawing, svg_of, ticks
from research.experiments import intervals, results
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.writing import write_whole

FOLDER = Path(__file__).resolve().parent
LONG_RUN = "books"
BEGUN = re.compile(r"(.+)-pieces-(\d+)")  # the name of a run from a model
OURS = re.compile(r"books-.+-(pieces-\d+|control(-cut)?)")
FEW, MORE, ALL = "orange", "blue", "green"  # labels


@dataclass(frozen=True)
class Panel:
    """A task: its title, the score's key in a result, and of each line its runs' name."""

    title: str
    key: str
    lines: dict[str, str]
    colours: tuple[str, ...] = (ALL,)


SST2 = {"200": "books-sst2-200", "2,000": "books-sst2-2000", "67,349 labels": "books-sst2-all"}
IMDB = {"500": "books-imdb-500", "33,750 labels": "books-imdb-all"}
PROBE = {
    "2,000": "books-probe-2000",
    "2,000 (mean)": "books-probe-mean",
    "67,349": "books-probe-all",
}
STS = {"no training": "books-sts-untrained", "6,040 pairs": "books-sts"}
PANELS = (
    Panel("SST-2, accuracy", "dev_acc", SST2, (FEW, MORE, ALL)),
    Panel("IMDB, first 128 tokens", "dev_acc", IMDB, (FEW, ALL)),
    Panel("SST-2, BERT frozen", "dev_acc", PROBE, (MORE, FEW, ALL)),
    Panel("Similarity, Pearson's r", "sts", STS, (FEW, ALL)),
    Panel("Names, F1 of entities", "dev_f1", {"5,000 sentences": "books-names"}),
)

# ---------------------------------------------------------------------------------------------
# Results

Scores = dict[int, list[float]]  # pieces read before → a score a seed


@dataclass(frozen=True)
class Line:
    """What a panel shows of a number of labels."""

    label: str
    colour: str
    scores: Scores
    control: float | None


def score_of(result: dict, key: str) -> float:
    """Of the last epoch; a control has none."""
    return (result.get("last") or result["metrics"])[key]


def line_of(runs: Sequence[dict], name: str, key: str, label: str, colour: str) -> Line:
    """The scores of the runs NAME-pieces-N, by N from few to many, and of their control.

    The control is the one that reads what BERT reads; NAME-control if nothing was cut.
    """
    scores: Scores = {}
    for result in runs:
        begun = BEGUN.fullmatch(result["name"])
        if begun and begun[1] == name:
            scores.setdefault(int(begun[2]), []).append(score_of(result, key))
    controls = {result["name"]: result for result in runs if result["seed"] is None}
    control = controls.get(f"{name}-control-cut") or controls.get(f"{name}-control")
    return Line(label, colour, dict(sorted(scores.items())), control and score_of(control, key))


def drawn_panels(runs: Sequence[dict]) -> list[tuple[Panel, list[Line]]]:
    """The panels, and the lines of each, of which there are results."""
    panels = []
    for panel in PANELS:
        named = zip(panel.lines.items(), panel.colours, strict=True)
        lines = [line_of(runs, name, panel.key, label, colour) for (label, name), colour in named]
        if lines := [line for line in lines if line.scores]:
            panels.append((panel, lines))
    return panels


def interval(values: Sequence[float]) -> float:
    """Half of the mean's 95 % t-interval over seeds; 0 of one seed, which has none."""
    mean, _, high = intervals.interval([np.array(values)], 0.0)
    return high - mean if len(values) > 1 else 0.0


def table(panels: Sequence[tuple[Panel, list[Line]]]) -> str:
    """Markdown: mean (standard deviation; seeds) of each line at each number of pieces."""
    rows = [(panel, line) for panel, lines in panels for line in lines]
    all_pieces = sorted({pieces for _, line in rows for pieces in line.scores})
    cells = [
        [f"{panel.title}, {line.label}", "–" if line.control is None else f"{line.control:.3f}"]
        + [mean_and_sd(line.scores.get(pieces, [])) for pieces in all_pieces]
        for panel, line in rows
    ]
    return results.markdown(["", "control", *map(in_words, all_pieces)], cells)


def in_words(pieces: int) -> str:
    """A number of pieces: 0, 500,000 or 3 M."""
    return f"{pieces:,}" if pieces % 1_000_000 or not pieces else f"{pieces // 1_000_000} M"


def mean_and_sd(values: Sequence[float]) -> str:
    """A cell of the table."""
    if not values:
        return "–"
    sd = f"{np.std(values, ddof=1):.3f}; " if len(values) > 1 else ""
    return f"{np.mean(values):.3f} ({sd}{len(values)})"


# ---------------------------------------------------------------------------------------------
# Axes


class Axes:
    """A place in a drawing: pieces read to the right, on a log scale after 0, and values upwards.

    Args:
        place: left, top, width and height of where lines are drawn.
        pieces: all that will be shown; 0 gets a place of its own, left of the others.
        values: all that will be shown.
    """

    GAP = 0.5  # from 0 to the first number of pieces, in decades

    def __init__(self, d: Drawing, place: tuple[float, ...], pieces, values):
        self.d, self.place = d, place
        positive = [n for n in pieces if n > 0] or [1]
        self.first, self.last = math.log10(min(positive)), math.log10(max(positive))
        self.has_zero = 0 in pieces
        self.ticks = ticks(min(values), max(values))

    def x(self, pieces: float) -> float:
        """Where a number of pieces is."""
        left, _, wide, _ = self.place
        begin = self.first - self.GAP * self.has_zero
        at = math.log10(pieces) if pieces > 0 else begin
        return left + 10 + (wide - 20) * (at - begin) / max(self.last - begin, 1e-9)

    def y(self, value: float) -> float:
        """Where a value is."""
        _, top, _, high = self.place
        return top + high * (self.ticks[-1] - value) / (self.ticks[-1] - self.ticks[0])

    def frame(self) -> None:
        """Ticks of both axes with their numbers; millions of pieces."""
        left, top, wide, high = self.place
        bottom = top + high
        step = self.ticks[1] - self.ticks[0]
        decimals = max(0, -math.floor(math.log10(step) + 1e-9))
        for value in self.ticks:
            self.d.line([(left, self.y(value)), (left + wide, self.y(value))], "thin")
            self.d.text(left - 8, self.y(value) + 6, f"{value:.{decimals}f}", "end quiet")
        powers = range(math.ceil(self.first - 1e-9), math.floor(self.last + 1e-9) + 1)
        for pieces in [0] * self.has_zero + [10**power for power in powers]:
            self.d.line([(self.x(pieces), bottom), (self.x(pieces), bottom + 6)], "")
            self.d.text(self.x(pieces), bottom + 26, f"{pieces / 1e6:g}", "quiet")


# ---------------------------------------------------------------------------------------------
# The figures


def scores_figure(d: Drawing, panels: Sequence[tuple[Panel, list[Line]]]) -> None:
    """What pre-training buys.

    A panel per task: the number of tokens that the model has read before, from 0, random
    weights, on a log scale, against the score after fine-tuning. A line is a number of labels, its
    bars are 95 % intervals over seeds. Dashed lines are controls that have no BERT.
    """
    shown = [n for _, lines in panels for line in lines for n in line.scores]
    places = [(4 + 318 * (i % 2), 14 + 306 * (i // 2)) for i in range(len(panels) + 1)]
    for (panel, lines), place in zip(panels, places[:-1], strict=True):
        draw_panel(d, panel.title, lines, shown, *place)
    left, top = places[-1][0] + 22, places[-1][1]
    d.text(left, top + 20, "→ million tokens", "start")
    d.text(left, top + 44, "that BERT has read before", "start")
    d.text(left, top + 68, "(0: random weights)", "start")
    d.box(left + 20, top + 100, 8, 8, "blue full")
    d.line([(left + 24, top + 90), (left + 24, top + 118)], "blue")
    d.text(left + 60, top + 110, "mean and 95 % interval", "start")
    d.text(left + 60, top + 134, "over seeds", "start")
    d.line([(left, top + 162), (left + 48, top + 162)], "blue dash")
    d.text(left + 60, top + 168, "control without BERT:", "start")
    d.text(left + 60, top + 192, "TF-IDF, words' tags", "start")


def draw_panel(
    d: Drawing, title: str, lines: Sequence[Line], shown: list[int], left: float, top: float
) -> None:
    """One task: its lines in their colours, whose names are above."""
    ends = [line.control for line in lines if line.control is not None]
    for line in lines:
        for values in line.scores.values():
            ends += [np.mean(values) - interval(values), np.mean(values) + interval(values)]
    d.text(left + 22, top + 20, title, "start bold")
    axes = Axes(d, (left + 56, top + 64, 246, 190), shown, ends)
    axes.frame()
    at = left + 22
    for i, line in enumerate(lines):
        d.text(at, top + 46, line.label, f"start bold {line.colour}")
        at += 10.5 * len(line.label) + 18
        if line.control is not None:
            y = axes.y(line.control)
            d.line([(left + 56, y), (left + 302, y)], f"{line.colour} dash")
        aside = 5 * (i - (len(lines) - 1) / 2)  # so that intervals do not hide each other
        points = [(axes.x(n) + aside, axes.y(float(np.mean(v)))) for n, v in line.scores.items()]
        if len(points) > 1:
            d.line(points, line.colour)
        for (x, y), values in zip(points, line.scores.values(), strict=True):
            half, mean = interval(values), float(np.mean(values))
            d.line([(x, axes.y(mean - half)), (x, axes.y(mean + half))], line.colour)
            d.box(x - 4, y - 4, 8, 8, f"{line.colour} full")


def loss_figure(d: Drawing, run: dict) -> None:
    """The long run's loss.

    The loss of masked words on held-out text, in nats, against the tokens read, on a log scale.
    The dashed line is the unigram entropy: the loss of a model that only counts words.
    """
    entropy = run["unigram_entropy"]
    pieces, losses = ([row[key] for row in run["held_out"]] for key in ("pieces", "mlm_loss"))
    axes = Axes(d, (60, 52, 560, 300), pieces, [*losses, entropy])
    axes.frame()
    d.text(20, 30, "loss of masked words on held-out text, nats", "start bold")
    d.text(620, 408, "million tokens read", "end quiet")
    d.line([(60, axes.y(entropy)), (620, axes.y(entropy))], "orange dash")
    d.text(616, axes.y(entropy) - 8, f"unigram entropy {entropy:.2f}", "end orange bold")
    points = [(axes.x(n), axes.y(loss)) for n, loss in zip(pieces, losses, strict=True)]
    d.line(points, "blue thick")
    d.text(616, points[-1][1] + 24, f"{losses[-1]:.2f}", "end blue bold")


def main() -> None:
    """Print the table and draw both figures."""
    runs = results.load_results()
    of_models = [run for run in runs if OURS.fullmatch(run["name"])]
    long_run = [run for run in runs if run["name"] == LONG_RUN]
    if not (of_models and long_run):
        command = "python research/experiments/run.py research/experiments/books/*.toml"
        raise InputError(f"no results yet; {command}")
    panels = drawn_panels(of_models)
    print(table(panels))
    write_whole(FOLDER / "books-scores.svg", svg_of(scores_figure, panels))
    write_whole(FOLDER / "books-loss.svg", svg_of(loss_figure, long_run[0]))
    print(f"wrote {FOLDER}/books-scores.svg and books-loss.svg")


if __name__ == "__main__":
    run_script(main)
