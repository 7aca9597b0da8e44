"""Curves as SVG that stands in a page."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")  # told apart by the colour-blind, too
MARKS = ("o", "s", "^", "D")


def picture(
    xlabel: str, ylabel: str, lines: Iterable[tuple[Sequence[float], Sequence[float], dict]]
) -> Markup:
    """Lines in the page's colours, its texts as texts: x, y and options of ``plot`` for each."""
    # matplotlib is imported here because it takes longer than all of a page's other work
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(4.8, 2.9), layout="constrained")
    axes = figure.subplots()
    for x, y, options in lines:
        axes.plot(x, y, **options)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.spines[["top", "right"]].set_visible(False)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    for background in (figure.patch, axes.patch):
        background.set_alpha(0)
    axes.legend(frameon=False, fontsize=8)
    as_typed(figure)
    file = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "minbert"}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    svg = file.getvalue()
    head, rest = svg[svg.index("<svg") :].replace("#000000", "currentColor").split(">", 1)
    return Markup(re.sub(r' (width|height)="[^"]*pt"', "", head) + ">" + rest)


def style(number: int, **options: Any) -> dict[str, Any]:
    """Colour, mark and line of the n-th line."""
    line = {"color": COLORS[number % 4], "marker": MARKS[number % 4]}
    return line | {"linestyle": ("-", "--", ":", "-.")[number // 4 % 4], **options}


def as_typed(figure: Figure) -> None:
    """Let all its texts stand as they are: between two $ matplotlib would read a formula."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_parse_math(False)
