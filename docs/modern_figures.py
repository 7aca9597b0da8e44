"""Draw the figures of docs/modern-bert.md, as SVG: what its code computes, with drawing.py's pen.

python docs/modern_figures.py
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

from docs.drawing import Drawing, svg_of, write_svg
from lessons.modern_bert import apply_rotary, local_mask
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script

FOLDER = Path(__file__).resolve().parent / "figures"
THETAS = ((10_000, "blue thick", "local layers: θ = 10,000"),)
THETAS += ((160_000, "orange thick dash", "global layers: θ = 160,000"),)
WIDTH = 64  # of a head of ModernBERT-base
FURTHEST = 128


def rotary(d: Drawing) -> None:
    """What rotary positions do to a score.

    Each pair of numbers is a hand that turns with the position, fast in the first pair and slowly
    in later ones. The score of two equal vectors falls as their tokens move apart, with waves, and
    more slowly where the base is larger.
    """
    d.text(24, 34, "pairs of one query, at positions 0 to 7", "start bold")
    circle = torch.linspace(0, 2 * math.pi, 33)
    hands = torch.zeros(1, 1, 8, WIDTH)
    hands[..., : WIDTH // 2] = 1  # each pair is (1, 0)
    turned = apply_rotary(hands, 10_000)[0, 0]  # (8, W)
    for row, pair in enumerate((0, 6, 14)):
        y = 74 + 62 * row
        d.text(24, y + 6, f"pair {pair}", "start")
        for token in range(8):
            x = 142 + 62 * token
            d.curve(x + 24 * circle.cos(), y + 24 * circle.sin(), "quiet thin")
            a, b = turned[token, pair].item(), turned[token, WIDTH // 2 + pair].item()
            d.line([(x, y), (x + 24 * a, y - 24 * b)], "blue thick")
    d.text(24, 276, "the score of two equal vectors, by their distance", "start bold")
    for value in (0, 0.5, 1):
        y = 492 - 150 * value
        d.line([(64, y), (608, y)], "thin")
        d.text(54, y + 6, f"{value:g}", "end quiet")
    distances = torch.arange(FURTHEST + 1)
    ones = torch.ones(1, 1, len(distances), WIDTH)
    for number, (theta, classes, name) in enumerate(THETAS):
        vectors = apply_rotary(ones, theta)[0, 0]  # (distances, W)
        scores = vectors @ vectors[0] / WIDTH
        d.curve(64 + 544 / FURTHEST * distances, 492 - 150 * scores, classes)
        d.line([(300, 300 + 24 * number), (348, 300 + 24 * number)], classes)
        d.text(360, 306 + 24 * number, name, "start")
    for distance in range(0, FURTHEST + 1, 32):
        d.text(64 + 544 / FURTHEST * distance, 524, str(distance), "quiet")


def local_window(d: Drawing) -> None:
    """Which tokens see which.

    In a global layer each of twelve tokens sees all of them. In a local layer with a window of
    four it sees itself and two tokens on each side: a band along the diagonal.
    """
    length, window, size = 12, 4, 22
    for left, mask, title in (
        (32, torch.ones(length, length), "a global layer"),
        (344, local_mask(length, window), f"a local layer, window {window}"),
    ):
        d.text(left + length * size / 2, 34, title, "big bold")
        d.heat(left, 52, mask.float(), size, size, 2.0)
        sees = int(mask[5].sum())
        d.text(left + length * size / 2, 346, f"token 5 sees {sees} tokens", "blue bold")
        d.box(left - 1, 52 + 5 * size - 1, length * size, size, "frame blue")


def norm_places(d: Drawing) -> None:
    """Where the norm is.

    In BERT the sum of input and sublayer is normalised, so everything passes a norm in each
    sublayer. In ModernBERT only what goes into a sublayer is, and from the first layer to the last
    there is a way of sums alone.
    """
    for left, title, steps in (
        (60, "BERT: after the sum", ("sublayer", "+", "LayerNorm")),
        (372, "ModernBERT: before", ("LayerNorm", "sublayer", "+")),
    ):
        middle = left + 120
        d.text(middle - 16, 34, title, "big bold")
        d.text(middle, 76, "x", "bold")
        d.line([(middle, 84), (middle, 104)], "")
        for number, name in enumerate(steps):
            y, colour = 126 + 84 * number, {"LayerNorm": "green", "+": "orange"}.get(name, "blue")
            d.arrow(middle, y - 22, middle, y - 2)
            wide = 48 if name == "+" else 136
            d.box(middle - wide / 2, y, wide, 44, colour, name)
            d.line([(middle, y + 44), (middle, y + 62)], "")
        plus = 126 + 84 * steps.index("+") + 22
        d.line([(middle, 94), (left - 16, 94), (left - 16, plus)], "orange thick")
        d.arrow(left - 16, plus, middle - 28, plus)
        d.arrow(middle, 356, middle, 384)
        d.text(middle, 408, "to the next sublayer", "quiet")


FIGURES = (rotary, local_window, norm_places)


def main() -> None:
    """Draw every figure."""
    OneLineParser(description="Draw the figures of docs/modern-bert.md.").parse_args()
    for draw in FIGURES:
        write_svg(FOLDER / f"{draw.__name__}.svg", svg_of(draw))
    print(f"wrote {len(FIGURES)} figures into {FOLDER}")


if __name__ == "__main__":
    run_script(main)
