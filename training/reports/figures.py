"""Figures of matplotlib: learning curves as PNG, and axes whose SVG stands in a page."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training.files.errors import InputError
from training.files.writing import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")  # told apart by the colour-blind, too
MARKS = ("o", "s", "^", "D")


def new_figure(width: float, height: float, rows: int = 1) -> tuple[Figure, Any]:
    """A figure of so many inches, and its axes, one below the other."""
    # matplotlib is imported here because it takes longer than all of a page's other work
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows)


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a PNG; a picture that cannot be written does not stop a run."""
    try:
        with atomic_write(path, "wb") as file:
            figure.savefig(file, format="png", dpi=120)
    except InputError as error:
        print(f"plot: {error}")


def plot_curves(
    path: str | Path, history: Sequence[dict[str, Any]], title: str, lines: Mapping[str, str]
) -> None:
    """A PNG with two plots by epoch: the training loss, and some metrics.

    Args:
        history: a dict an epoch, with "epoch", "loss" and the metrics.
        lines: which metrics, and what the legend calls them; dashed those of the training set.
    """
    epochs = [row["epoch"] for row in history]
    figure, (above, below) = new_figure(6, 5.4, rows=2)
    above.plot(epochs, [row["loss"] for row in history], "k-o", ms=4)
    above.set(title=title, ylabel="training loss")
    for i, (key, label) in enumerate(lines.items()):
        style = f"C{i}--s" if key.startswith("train") else f"C{i}-o"
        below.plot(epochs, [row[key] for row in history], style, ms=4, label=label)
    below.set(xlabel="epoch", ylabel="score")
    below.legend(fontsize=8)
    for axes in (above, below):
        axes.xaxis.get_major_locator().set_params(integer=True)
    save_figure(figure, path)


def new_axes(xlabel: str, ylabel: str) -> tuple[Figure, Any]:
    """A transparent figure for a page, with axes on two sides."""
    figure, axes = new_figure(4.8, 2.9)
    figure.patch.set_alpha(0)
    axes.patch.set_alpha(0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    return figure, axes


def svg_of(figure: Figure) -> str:
    """SVG in which black is the page's text colour, and texts are texts."""
    import matplotlib

    file = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "minbert"}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :].replace("#000000", "currentColor")
    head, rest = svg.split(">", 1)  # as wide as the page lets it be
    return re.sub(r' (width|height)="[^"]*pt"', "", head) + ">" + rest
