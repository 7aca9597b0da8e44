"""The figures of docs/modern-bert.md: what its code computes. figures.py draws them."""

from __future__ import annotations

import math

import torch

from bert import BertLayer
from config import BertConfig
from docs.drawing import Drawing
from lessons.modern_bert import GeGLU, apply_rotary, local_mask
from pretraining.modern_config import ModernBertConfig

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


@torch.no_grad()
def gate(d: Drawing) -> None:
    """GELU, and GELU with a gate.

    GELU makes one number of one. With a gate a second number multiplies the result: a gate of 2
    doubles it, one of 0 lets nothing through, and one below 0 turns its sign.
    """
    layer = GeGLU(ModernBertConfig(hidden_size=2, num_attention_heads=1, intermediate_size=1))
    layer.interm_dense.weight.copy_(torch.eye(2))  # value and gate are the two inputs
    layer.out_dense.weight.copy_(torch.tensor([[1.0], [0.0]]))
    xs = torch.linspace(-3, 3, 61)
    gates = ((2, "purple thick"), (1, "blue thick"), (0, "green thick"), (-1, "orange thick"))
    for middle, title, drawn in ((146, "GELU(x)", gates[1:2]), (414, "GELU(x) · gate", gates)):
        d.text(middle, 34, title, "big bold")
        d.line([(middle - 114, 250), (middle + 114, 250)], "")
        d.line([(middle, 60), (middle, 358)], "")
        for value in (-2, 2):
            d.text(middle + 38 * value, 274, f"{value}".replace("-", "−"), "quiet")
            d.text(middle - 10, 256 - 38 * value, f"{value}".replace("-", "−"), "end quiet")
        for size, classes in drawn:
            ys = layer(torch.stack((xs, torch.full_like(xs, size)), 1))[:, 0]
            shown = ys <= 4.6
            d.curve(middle + 38 * xs[shown], 250 - 38 * ys[shown], classes)
            if len(drawn) > 1:
                name, colour = f"gate {size}".replace("-", "−"), classes.split()[0]
                y = 250 - 38 * float(ys[shown][-1])
                d.text(middle + 38 * float(xs[shown][-1]) + 8, y + 6, name, f"start bold {colour}")


def gate_sizes(d: Drawing) -> None:
    """The matrices of one feed-forward network, drawn to scale.

    GELU needs two matrices, GeGLU three. With two thirds of the intermediate numbers, 2,048, GeGLU
    has as many parameters as GELU with 3,072. ModernBERT-base takes 1,152, a good half of them.
    """
    scale = 0.085  # units of the drawing for each row or column
    with torch.device("meta"):  # shapes only
        rows = [("GELU, BERT-base", "blue", ("W", "W₂"), BertLayer(BertConfig()))]
        for title, colour, size in (
            ("GeGLU, equal size", "orange", BertConfig().intermediate_size * 2 // 3),
            ("GeGLU, ModernBERT-base", "green", ModernBertConfig().intermediate_size),
        ):
            layer = GeGLU(ModernBertConfig(intermediate_size=size))
            rows.append((title, colour, ("W", "V", "W₂"), layer))
    for i, (title, colour, names, layer) in enumerate(rows):
        y, (hidden, size) = 34 + 132 * i, layer.out_dense.weight.shape
        count = layer.interm_dense.weight.numel() + layer.out_dense.weight.numel()
        d.text(32, y, f"{title}: {count / 1e6:.2f} million", "start bold")
        wide = scale * size
        for number, name in enumerate(names):
            d.box(32 + (wide + 14) * number, y + 16, wide, scale * hidden, colour, name)
        d.text(608, y, f"{hidden} × {size:,} each", "end")


def reach(d: Drawing) -> None:
    """What reaches a token through local and global layers.

    Through local layers alone, a token's result depends on a few tokens more on each side after
    each layer: a cone. One global layer among them, and it depends on all tokens.
    """
    length, window, left, wide = 25, 4, 100, 18
    local, everything = local_mask(length, window).float(), torch.ones(length, length)
    middle = length // 2
    d.text(616, 34, "tokens", "end bold blue")
    for y, title, masks in (
        (34, f"local layers, window {window}: what reaches token {middle}", (local,) * 4),
        (240, "with one global layer", (local, local, everything, local)),
    ):
        d.text(24, y, title, "start bold")
        reached = torch.eye(length)  # each token's result depends on the token alone
        for number, mask in enumerate(masks):
            reached = (mask @ reached).clamp(max=1)  # (L, L), row's result depends on column
            top, is_global = y + 18 + 38 * number, mask is everything
            name, classes = ("global", "start bold") if is_global else ("local", "start")
            d.text(24, top + 21, name, classes)
            d.heat(left, top, reached[middle, None], wide, 30, 2.0)
            d.text(616, top + 21, f"{int(reached[middle].sum())}", "end bold blue")
        d.box(left + middle * wide - 1, y + 14, wide, 150, "frame orange")


FIGURES = (rotary, gate, gate_sizes, local_window, reach, norm_places)
