"""Figures of matplotlib, and axes whose SVG stands in a page."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")  # told apart by the colour-blind, too
MARKS = ("o", "s", "^", "D")


def new_figure(width: float, height: float) -> tuple[Figure, Any]:
    """A figure of so many inches, and its axes."""
    # matplotlib is imported here because it takes longer than all of a page's other work
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def new_axes(xlabel: str, ylabel: str) -> tuple[Figure, Any]:
    """A transparent figure for a page, with axes on two sides and whole numbers below."""
    from matplotlib.ticker import MaxNLocator

    figure, axes = new_figure(4.8, 2.9)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    figure.patch.set_alpha(0)
    axes.patch.set_alpha(0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    return figure, axes


def as_typed(figure: Figure) -> None:
    """Let all its texts stand as they are: between two $ matplotlib would read a formula."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_parse_math(False)


def svg_of(figure: Figure) -> str:
    """SVG in which black is the page's text colour, and texts are texts."""
    import matplotlib

    as_typed(figure)
    file = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "minbert"}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :].replace("#000000", "currentColor")
    head, rest = svg.split(">", 1)  # as wide as the page lets it be
    return re.sub(r' (width|height)="[^"]*pt"', "", head) + ">" + rest
