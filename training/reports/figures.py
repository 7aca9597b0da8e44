"""Curves as SVG that stands in a page."""

import io
import re
from collections.abc import Iterable, Sequence
from typing import Any

import matplotlib
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")  # told apart by the colour-blind, too
AS_TYPED = {"text.parse_math": False}  # between two $ matplotlib would read a formula
SVG = {"svg.fonttype": "none", "svg.hashsalt": "minbert"}  # texts as texts, the same bytes again


def picture(
    xlabel: str, ylabel: str, lines: Iterable[tuple[Sequence[float], Sequence[float], dict]]
) -> Markup:
    """Lines in the page's colours: x, y and options of ``plot`` for each."""
    file = io.StringIO()
    with matplotlib.rc_context(AS_TYPED | SVG):
        figure = Figure(figsize=(4.8, 2.9), layout="constrained")
        axes = figure.subplots()
        for x, y, options in lines:
            axes.plot(x, y, **options)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.spines[["top", "right"]].set_visible(False)
        axes.set(xlabel=xlabel, ylabel=ylabel)
        axes.legend(frameon=False, fontsize=8)
        figure.savefig(file, format="svg", metadata={"Date": None}, transparent=True)
    svg = file.getvalue()
    head, rest = svg[svg.index("<svg") :].replace("#000000", "currentColor").split(">", 1)
    return Markup(re.sub(r' (width|height)="[^"]*pt"', "", head) + ">" + rest)


def style(number: int, **options: Any) -> dict[str, Any]:
    """Colour, mark and line of the n-th line."""
    line = {"color": COLORS[number % 4], "marker": "os^D"[number % 4]}
    return line | {"linestyle": ("-", "--", ":", "-.")[number // 4 % 4], **options}
