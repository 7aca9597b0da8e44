"""Pictures of the lab's findings: a heat map in the terminal, as SVG, and a page of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lessons.attention_maps import fill_in, page_of
from training.files.writing import write_whole

HERE = Path(__file__).resolve().with_suffix("")  # the templates
SHADES = " ░▒▓█"


class HeatMap(NamedTuple):
    """Numbers in rows and columns, and the cell that somebody has guessed to be the largest."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: np.ndarray  # (rows, columns)
    guess: tuple[int, int]

    @property
    def largest(self) -> tuple[int, int]:
        """Row and column of the largest value."""
        return divmod(int(self.values.argmax()), len(self.columns))

    @property
    def strength(self) -> np.ndarray:
        """The values from −1 to 1, as parts of the largest size."""
        return self.values / max(np.abs(self.values).max(), 1e-12)

    @property
    def rounded(self) -> np.ndarray:
        """The values as they are shown, to 0.01, and without −0."""
        return np.round(self.values, 2) + 0.0


class Finding(NamedTuple):
    """The answer to a question: how the guess fared, estimates in words, and perhaps a map."""

    title: str
    verdict: str
    estimates: Mapping[str, str]
    heat: HeatMap | None


def as_text(heat: HeatMap) -> str:
    """A map for a terminal: shaded numbers, [the guess], a star at the largest, and a legend."""
    width = max(map(len, heat.rows))
    lines = [" " * width + "".join(f"{name:>12}" for name in heat.columns)]
    for i, name in enumerate(heat.rows):
        cells = ""
        for j, value in enumerate(heat.rounded[i]):
            shade = SHADES[round(max(0, heat.strength[i, j]) * (len(SHADES) - 1))]
            left, right = "[]" if (i, j) == heat.guess else "  "
            star = "*" if (i, j) == heat.largest else " "
            cells += f" {left}{shade}{shade}{value:+6.2f}{star}{right}".rjust(12)
        lines.append(f"{name:{width}}{cells}")
    legend = f"[ ] your guess, * the largest; {SHADES[1:]} fractions of the largest"
    return "\n".join([*lines, legend])


def show(finding: Finding) -> None:
    """Print a verdict, the estimates it rests on, and the map."""
    width = max(map(len, finding.estimates))
    print(f"{finding.title}\n  {finding.verdict}")
    for name, value in finding.estimates.items():
        print(f"  {name:{width}}  {value}")
    print(f"{as_text(finding.heat)}\n" if finding.heat else "", end="")


def write_pictures(prefix: str, model: str, findings: Sequence[Finding]) -> list[str]:
    """Write PREFIX.html, which needs no network, and PREFIX-1.svg …; the names of the files.

    A picture has its own colours, light or dark as the reader's screen is.
    """
    title, maps = f"Predict, then run: {model}", [each.heat for each in findings if each.heat]
    files = {f"{prefix}.html": page_of(HERE, title=title, findings=findings)}
    for i, heat in enumerate(maps, start=1):
        files[f"{prefix}-{i}.svg"] = fill_in(HERE, "heat_map.svg", heat=heat) + "\n"
    for name, text in files.items():
        write_whole(name, text)
    return [*files]
