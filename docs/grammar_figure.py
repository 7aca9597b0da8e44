"""Draw when grammar is learned, from the results of research/experiments/books/grammar.toml.

    python docs/grammar_figure.py

grammar-learned.svg has the accuracy on minimal pairs, by phenomenon, and the loss on held-out text
of one model's checkpoints.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from docs.drawing import Drawing, svg_of
from docs.pretraining_figure import BEGUN, Axes, in_words
from research.experiments import results
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.writing import write_whole

FOLDER = Path(__file__).resolve().parent / "figures"  # the playground takes it from there
RUNS = "grammar"
SHOWN = {  # phenomenon: colour, name in the figure
    "agreement_determiner_noun": ("blue", "determiner, noun"),
    "agreement_subject_verb": ("green", "subject, verb"),
    "filler-gap": ("purple", "filler, gap"),
    "island-effects": ("orange", "islands"),
    "npi_licensing": ("orange dash", "ever (NPI)"),
    "all": ("ink thick", "all 13 phenomena"),
}
WIDE, RIGHT = 364, 424  # of the axes; where the names of lines are
APART = 24  # of two names


def curves_of(runs: Sequence[dict]) -> tuple[list[int], dict[str, list[float]]]:
    """Tokens read, and at each the accuracies by phenomenon and the loss."""
    begun = {BEGUN.fullmatch(run["name"]): run for run in runs}
    named = {int(match[2]): run for match, run in begun.items() if match and match[1] == RUNS}
    curves: dict[str, list[float]] = {}
    for _, run in sorted(named.items()):
        values = run["phenomena"] | {"all": run["metrics"]["grammar"]}
        for name, value in (values | {"loss": run["metrics"]["mlm_loss"]}).items():
            curves.setdefault(name, []).append(value)
    return sorted(named), curves


def spread(wanted: Mapping[str, float]) -> dict[str, float]:
    """Heights for names, near those wanted but far enough apart, from the top downwards."""
    heights: dict[str, float] = {}
    lowest = 0.0
    for name, y in sorted(wanted.items(), key=lambda item: item[1]):
        heights[name] = lowest = max(y, lowest + APART)
    return heights


def learned(d: Drawing, tokens: Sequence[int], curves: Mapping[str, Sequence[float]]) -> None:
    """When grammar is learned.

    Above, the fraction of minimal pairs whose grammatical sentence a BERT prefers, by phenomenon;
    below, its loss of masked words on held-out text: both against the tokens that it has read, from
    0, random weights, on a log scale. The dashed grey line is chance.
    """
    d.text(20, 30, "grammatical sentence preferred, fraction of pairs", "start bold")
    shown = [value for name in SHOWN for value in curves[name]]
    axes = Axes(d, (60, 48, WIDE, 300), tokens, [0.5, *shown])
    axes.frame()
    d.line([(60, axes.y(0.5)), (60 + WIDE, axes.y(0.5))], "quiet dash")
    heights = spread({name: axes.y(curves[name][-1]) for name in SHOWN})
    for name, (classes, label) in SHOWN.items():
        points = [(axes.x(n), axes.y(value)) for n, value in zip(tokens, curves[name], strict=True)]
        d.line(points, classes)
        d.text(RIGHT + 8, heights[name] + 6, label, f"start bold {classes.split()[0]}")
    top = 416
    d.text(20, top, "loss of masked words on held-out text, nats", "start bold")
    axes = Axes(d, (60, top + 18, WIDE, 130), tokens, curves["loss"])
    axes.frame()
    points = [(axes.x(n), axes.y(value)) for n, value in zip(tokens, curves["loss"], strict=True)]
    d.line(points, "ink thick")
    d.text(RIGHT + 8, points[-1][1] + 6, f"{curves['loss'][-1]:.2f}", "start bold")
    d.text(60 + WIDE, top + 196, "million tokens read (0: random weights)", "end quiet")


def table(tokens: Sequence[int], curves: Mapping[str, Sequence[float]]) -> str:
    """Markdown: a row for each phenomenon and the loss."""
    rows = [[name, *(f"{value:.3f}" for value in values)] for name, values in curves.items()]
    return results.markdown(["tokens read", *map(in_words, tokens)], rows)


def main() -> None:
    """Print the table and draw the figure."""
    tokens, curves = curves_of(results.load_results())
    if len(tokens) < 2:
        command = "python research/experiments/run.py research/experiments/books/grammar.toml"
        raise InputError(f"{len(tokens)} checkpoints have results, too few for a line; {command}")
    print(table(tokens, curves))
    write_whole(FOLDER / "grammar-learned.svg", svg_of(learned, tokens, curves))
    print(f"wrote {FOLDER}/grammar-learned.svg")


if __name__ == "__main__":
    run_script(main)
