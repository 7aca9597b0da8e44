"""What the figures are drawn with: an SVG in the colours of a reader's light or dark setting.

Blue is above 0 and orange below, and the stronger the colour the larger the number. A figure's
title and description, for screen readers, are its function's docstring. L tokens, D numbers each.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from html import escape

import torch
from matplotlib.ticker import MaxNLocator
from torch import Tensor

WIDTH, PIXELS = 640, 720  # of a drawing, and of its picture where there is room
COLOURS = {  # classes: light, dark; blue and orange are told apart by all eyes
    "path,rect,.quiet": ("#566273", "#a9b4c2"),
    "text,.ink": ("#1b2430", "#e8ecf2"),
    ".card": ("#ffffff", "#141a22"),
    ".blue": ("#0066ae", "#62b6f2"),
    ".orange": ("#c04a00", "#f5a04e"),
    ".green": ("#00735c", "#4ccfa8"),
    ".purple": ("#8a3d86", "#d995d6"),
}
CLASSES = """
    text{font:18px system-ui,sans-serif;text-anchor:middle;stroke:none!important}
    .start{text-anchor:start}.end{text-anchor:end}.bold{font-weight:600}.big{font-size:23px}
    rect{fill-opacity:.13;stroke-width:1.5}.strong{fill-opacity:.4}.full{fill-opacity:1}
    .frame{fill:none!important;stroke-width:3}.edge{fill:none;stroke-width:1;stroke-opacity:.45}
    .line{fill:none!important;stroke-width:1.5;stroke-linecap:round;stroke-linejoin:round}
    .thin{stroke-width:1;opacity:.5}.thick{stroke-width:4}.dash{stroke-dasharray:9 8}
    .area{fill-opacity:.2;stroke-width:2}.cells path{fill:inherit;stroke:none}
"""
TIP = """<defs><marker id="tip" refX="7" refY="4" orient="auto" markerWidth="8" markerHeight="8"
 markerUnits="userSpaceOnUse"><path d="M0 0L8 4L0 8z"/></marker></defs>"""

Chip = tuple[str, float]  # a token, and the middle of all that is drawn of it


def number(value: float) -> str:
    """A coordinate, to a tenth."""
    return f"{round(float(value), 1) + 0:g}"


def chip_width(token: str) -> float:
    """The width of the box around a token."""
    return max(26, 10.2 * len(token) + 16)


def side_by_side(tokens: Sequence[str], left: float = 32, right: float = 608) -> list[Chip]:
    """Place the chips of a sentence from left to right, with equal gaps."""
    widths = [chip_width(token) for token in tokens]
    gap = (right - left - sum(widths)) / (len(tokens) - 1)
    starts = [left + sum(widths[:i]) + i * gap for i in range(len(tokens))]
    return [(token, x + chip_width(token) / 2) for token, x in zip(tokens, starts, strict=True)]


class Drawing:
    """An SVG; what is added lies on top of what was there. ``classes`` are those of CLASSES."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.bottom = 0.0  # of all that was drawn

    def svg(self, docstring: str) -> str:
        """The whole file, with the docstring's first line as its title."""
        title, _, about = inspect.cleandoc(docstring).partition("\n\n")
        height = round(self.bottom + 20)
        light, dark = (
            "".join(f"{name}{{fill:{c[i]};stroke:{c[i]}}}" for name, c in COLOURS.items())
            for i in (0, 1)
        )
        rules = f"{light}{inspect.cleandoc(CLASSES)}@media(prefers-color-scheme:dark){{{dark}}}"
        box = f'viewBox="0 0 {WIDTH} {height}"'
        size = f'width="{PIXELS}" height="{number(height * PIXELS / WIDTH)}"'
        return f"""<svg xmlns="http://www.w3.org/2000/svg" role="img" {box} {size}>
<title>{escape(title.removesuffix("."))}</title>
<desc>{escape(" ".join(about.split()))}</desc>
<style>{rules}</style>{TIP}
<rect class="card full" width="{WIDTH}" height="{height}" rx="14"/>
{chr(10).join(self.parts)}
</svg>
"""

    def text(self, x: float, y: float, words: str, classes: str = "", turn: int = 0) -> None:
        """Words whose base line is at y; ``turn`` degrees about (x, y)."""
        turned = f' transform="rotate({turn} {number(x)} {number(y)})"' if turn else ""
        place = f'class="{classes}" x="{number(x)}" y="{number(y)}"{turned}'
        self.parts.append(f"<text {place}>{escape(words)}</text>")
        self.bottom = max(self.bottom, y)

    def box(self, x: float, y: float, wide: float, high: float, classes: str, *words: str) -> None:
        """A round box with rows of words in its middle; of several rows the first is bold."""
        place = f'x="{number(x)}" y="{number(y)}" width="{number(wide)}" height="{number(high)}"'
        round_by = 2 if classes == "edge" else 7
        self.parts.append(f'<rect class="{classes}" {place} rx="{round_by}"/>')
        self.bottom = max(self.bottom, y + high)
        for i, row in enumerate(words):
            down = y + high / 2 + 6.5 + 24 * (i - (len(words) - 1) / 2)
            self.text(x + wide / 2, down, row, "bold" if len(words) > 1 and i == 0 else "")

    def chip(self, chip: Chip, y: float, classes: str) -> None:
        """A token in a box."""
        token, middle = chip
        self.box(middle - chip_width(token) / 2, y, chip_width(token), 30, classes, token)

    def line(self, points: Sequence[tuple[float, float]], classes: str, extra: str = "") -> None:
        """A line through points, with the class "area" also filled."""
        path = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)
        line = "" if "area" in classes else "line "
        self.parts.append(f'<path class="{line}{classes}" d="{path}"{extra}/>')
        self.bottom = max(self.bottom, *(y for _, y in points))

    def curve(self, xs: Tensor, ys: Tensor, classes: str) -> None:
        """A line through as many points as there are coordinates."""
        self.line(torch.stack((xs, ys), 1).tolist(), classes)

    def arrow(self, *places: float) -> None:
        """An arrow from x, y to x, y, and on to further ones."""
        self.line(list(zip(places[::2], places[1::2], strict=True)), "", ' marker-end="url(#tip)"')

    def heat(self, x: float, y: float, rows: Tensor, wide: float, high: float, top: float) -> None:
        """A matrix as coloured cells; a number as large as ``top`` has the full colour."""
        for sign, colour in ((1, "blue"), (-1, "orange")):
            self.parts.append(f'<g class="cells {colour}">')
            for i, j in (rows * sign > 0.01 * top).nonzero().tolist():
                deep = min(1.0, abs(float(rows[i, j])) / top)
                size = f"h{number(wide - 0.8)}v{number(high - 0.8)}h-{number(wide - 0.8)}z"
                path = f"M{number(x + j * wide)} {number(y + i * high)}{size}"
                self.parts.append(f'<path opacity="{deep:.2f}" d="{path}"/>')
            self.parts.append("</g>")
        wide, high = rows.size(1) * wide + 2, rows.size(0) * high + 2
        self.box(x - 1.4, y - 1.4, wide, high, "edge")

    def strips(self, chips: Sequence[Chip], y: float, vectors: Tensor, top: float) -> None:
        """Under each chip the first numbers of its vector (L, D), one above the other."""
        for (_, middle), vector in zip(chips, vectors, strict=True):
            self.heat(middle - 13, y, vector[:7, None], 26, 10, top)

    def rows(self, tokens: Sequence[str], x: float, y: float, high: float) -> None:
        """The tokens to the left of a matrix, one a row."""
        for i, token in enumerate(tokens):
            self.text(x - 8, y + (i + 0.5) * high + 6, token, "end")


def svg_of(draw: Callable[..., None], *data: object) -> str:
    """The SVG that a function draws of the data; its docstring is the figure's description."""
    drawing = Drawing()
    draw(drawing, *data)
    return drawing.svg(draw.__doc__)


def ticks(low: float, high: float) -> list[float]:
    """A few round values for an axis, the first no higher than ``low``, the last no lower."""
    locator = MaxNLocator(nbins=4, steps=[1, 2, 5, 10])
    return locator.tick_values(low, max(high, low + 0.01)).tolist()
