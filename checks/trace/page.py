"""The trace as a page: what is said about each state, and heat maps of one sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader
from torch import Tensor

from checks.findings import Outcome

HERE = Path(__file__).parent
STYLES = HERE.parents[1] / "training" / "reports"  # what all pages look like


class Line(NamedTuple):
    """What is said about one state or gradient.

    Attributes:
        status: "ok", "differs", or "skipped" (not seen).
        about: the largest difference, relative where the right number is above 1.
        why: the first difference in words.
        places: the functions to open if it is the first that differs.
        mine, theirs: the two tensors, where they can be drawn.
    """

    name: str
    status: str
    about: str
    why: str = ""
    places: str = ""
    mine: Any = None
    theirs: Tensor | None = None


def page_of(lines: Sequence[Line], inputs: SimpleNamespace, end: Outcome) -> str:
    """The page, which needs no network and no other file.

    Args:
        inputs: ids and real, (B, L) both.
        end: what is said at the end, as of an exception.
    """
    first = next((line for line in lines if line.status == "differs"), None)
    row = 0
    if first and first.mine is not None:  # the sentence that differs most
        off = (first.mine - first.theirs).abs().nan_to_num(math.inf)
        row = int(off.flatten(1).amax(1).argmax())
    ids = inputs.ids[row][inputs.real[row]].tolist()  # without padding
    pairs = [None if line.mine is None else (line.mine, line.theirs) for line in lines]
    maps = [pair and [matrix(tensor[row], len(ids)) for tensor in pair] for pair in pairs]
    folders = FileSystemLoader([HERE, STYLES])
    template = Environment(loader=folders, autoescape=True, trim_blocks=True).get_template(
        "page.html"
    )
    return template.render(lines=lines, first=first, maps=maps, ids=ids, number=row, end=end)


def matrix(state: Tensor, length: int) -> list[list[float | None]]:
    """A state of one sentence, (L, D) or (D,), to four digits; None for NaN and infinity."""
    rows = state.reshape(-1, state.size(-1))[:length].tolist()
    return [[float(f"{x:.4g}") if math.isfinite(x) else None for x in row] for row in rows]
