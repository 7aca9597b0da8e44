"""The trace as a page: what is said about each state, and heat maps of one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader
from torch import Tensor

from checks.findings import ROOT, Outcome

FOLDERS = (Path(__file__).parent, ROOT / "training" / "reports")  # the latter: what all pages have


class Line(NamedTuple):
    """What is said about one state or gradient.

    Attributes:
        status: "ok", "differs", or "skipped" (not seen).
        about: the largest difference, relative where the reference's number is above 1.
        why: the first difference in words.
        places: the functions to open if it is the first line that differs.
        both: the two tensors, mine and the reference's, where they can be drawn.
        row: where the first difference is, on the first axis.
    """

    name: str
    status: str
    about: str
    why: str = ""
    places: str = ""
    both: Sequence[Tensor] = ()
    row: int = 0


def page_of(lines: Sequence[Line], inputs: SimpleNamespace, end: Outcome) -> str:
    """The page, which needs no network, of the sentence with the first difference.

    Args:
        inputs: ids and real, (B, L) both.
        end: what is said at the end, as of an exception.
    """
    first = next((line for line in lines if line.status == "differs"), None)
    row = first.row if first and first.both else 0
    ids = inputs.ids[row][inputs.real[row]].tolist()  # without padding, as the matrices
    maps = [
        [x[row].reshape(-1, x.size(-1))[: len(ids)].round(decimals=4).tolist() for x in line.both]
        for line in lines
    ]
    environment = Environment(loader=FileSystemLoader(FOLDERS), autoescape=True, trim_blocks=True)
    facts = {"lines": lines, "first": first, "maps": maps, "ids": ids, "number": row, "end": end}
    return environment.get_template("page.html").render(facts)
