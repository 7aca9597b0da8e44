"""The functions of part 3, lessons/modern_bert.py, with each known mistake as a switch."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from course.switches import chosen

ROTARY = {
    "pairs": "interleaved interleaved_then_halves halves_then_interleaved halves_swapped "
    "read_in_reverse",
    "rotation": "other_direction sign_in_the_first sign_in_the_second sine_and_cosine_swapped "
    "second_stays turned_twice no_sine",
    "positions": "positions_from_one positions_backwards turned_by_head",
    "base": "base_ignored global_base",
    "exponents": "exponents_half_as_large exponents_twice_as_large exponents_from_one "
    "frequencies_not_inverted same_angle_for_all exponents_reversed",
    "shape": "heads_not_broadcast",
    "type": "type_lost angles_in_half_precision",
}  # fmt: skip
MASK = {
    "half": "whole_window half_rounded_up half_without_itself quarter",
    "distance": "no_absolute_value no_absolute_value_other_side around_the_end first_token_only "
    "itself_only past_only future_only blocks window_ignored off_by_one one_too_many "
    "without_itself",
    "result": "inverted additive additive_infinite of_numbers",
}  # fmt: skip
GEGLU = {
    "dropout": "no_dropout dropout_at_the_end dropout_on_the_input dropout_in_evaluation",
    "split": "swapped interleaved split_along_tokens split_along_texts",
    "activation": "gelu_on_both gelu_after_product gelu_twice no_gelu gelu_by_tanh sigmoid silu "
    "relu softmax tanh",
    "product": "added no_gate gate_alone subtracted",
    "end": "not_projected residual_inside result_detached gelu_at_the_end",
}  # fmt: skip


def apply_rotary(wrong: frozenset[str], x: Tensor, theta: float) -> Tensor:
    """Task 3.1, with the mistakes in ``wrong``: (B, H, L, W) → (B, H, L, W)."""
    exact = torch.promote_types(x.dtype, torch.float32)
    kind = x.dtype if "angles_in_half_precision" in wrong else exact
    angles = angles_of(wrong, x, theta, kind)
    cos, sin = angles.cos(), angles.sin()
    if "sine_and_cosine_swapped" in wrong:
        cos, sin = sin, cos
    if "no_sine" in wrong:
        sin = torch.zeros_like(sin)
    if wrong & {"interleaved", "interleaved_then_halves"}:
        a, b = x[..., 0::2], x[..., 1::2]
    else:
        a, b = x.chunk(2, dim=-1)
    if "read_in_reverse" in wrong:
        a, b = b, a
    signs = {
        "other_direction": (1, -1),
        "sign_in_the_first": (1, 1),
        "sign_in_the_second": (-1, -1),
    }
    first_sign, second_sign = chosen(signs, wrong, (-1, 1))
    first = a * cos + first_sign * b * sin
    second = second_sign * (first if "turned_twice" in wrong else a) * sin + b * cos
    if "second_stays" in wrong:
        second = b
    if "halves_swapped" in wrong:
        first, second = second, first
    if wrong & {"interleaved", "halves_then_interleaved"}:
        turned = torch.stack((first, second), dim=-1).flatten(-2)
    else:
        turned = torch.cat((first, second), dim=-1)
    return turned if "type_lost" in wrong else turned.to(x.dtype)


def angles_of(wrong: frozenset[str], x: Tensor, theta: float, exact: torch.dtype) -> Tensor:
    """The angles by which the pairs of each token are turned: (L, W / 2)."""
    length, width = x.shape[-2:]
    numbers = torch.arange(0, width, 2, dtype=exact)
    exponents = {
        "exponents_half_as_large": numbers / 2 / width,
        "exponents_twice_as_large": 2 * numbers / width,
        "exponents_from_one": (numbers + 2) / width,
        "exponents_reversed": numbers.flip(0) / width,
    }
    base = chosen({"base_ignored": 10_000, "global_base": 160_000}, wrong, theta)
    powers = base ** chosen(exponents, wrong, numbers / width)
    frequencies = {
        "frequencies_not_inverted": powers,
        "same_angle_for_all": torch.ones_like(powers),
    }
    frequencies = chosen(frequencies, wrong, 1 / powers)
    positions = torch.arange(length, dtype=exact)
    if "positions_from_one" in wrong:
        positions = positions + 1
    if "positions_backwards" in wrong:
        positions = positions.flip(0)
    if "turned_by_head" in wrong:
        return torch.arange(x.size(1), dtype=exact)[:, None, None] * frequencies
    angles = positions[:, None] * frequencies
    return angles[:, None] if "heads_not_broadcast" in wrong else angles


def local_mask(wrong: frozenset[str], length: int, window: int) -> Tensor:
    """Task 3.2, with the mistakes in ``wrong``: (L, L), True where a token sees another one."""
    positions = torch.arange(length)
    differences = positions[:, None] - positions
    if "first_token_only" in wrong:
        differences = positions
    if "itself_only" in wrong:
        differences = positions - positions
    halves = {
        "whole_window": window,
        "half_rounded_up": (window + 1) // 2,
        "half_without_itself": (window - 1) // 2,
        "quarter": window // 4,
    }
    half = chosen(halves, wrong, window // 2)
    distances = differences.abs()
    ways = {
        "no_absolute_value": lambda: differences <= half,
        "no_absolute_value_other_side": lambda: -differences <= half,
        "around_the_end": lambda: torch.minimum(distances, length - distances) <= half,
        "past_only": lambda: (distances <= half) & (differences >= 0),
        "future_only": lambda: (distances <= half) & (differences <= 0),
        "blocks": lambda: positions[:, None] // window == positions // window,
        "window_ignored": lambda: distances <= length,
        "off_by_one": lambda: distances < half,
        "one_too_many": lambda: distances <= half + 1,
        "without_itself": lambda: (distances <= half) & (distances > 0),
    }
    mask = chosen(ways, wrong, lambda: distances <= half)()
    ends = {
        "inverted": lambda: ~mask,
        "additive": lambda: (~mask).float() * -1e9,
        "additive_infinite": lambda: torch.zeros(mask.shape).masked_fill(~mask, float("-inf")),
        "of_numbers": lambda: mask.long(),
    }
    return chosen(ends, wrong, lambda: mask)()


def geglu(wrong: frozenset[str], self, hidden_states: Tensor) -> Tensor:
    """Task 3.3, with the mistakes in ``wrong``: (B, L, D) → (B, L, D)."""
    drop = self.out_dropout
    if "dropout_in_evaluation" in wrong:
        drop = lambda x: F.dropout(x, self.out_dropout.p)  # noqa: E731
    given = drop(hidden_states) if "dropout_on_the_input" in wrong else hidden_states
    both = self.interm_dense(given)
    splits = {
        "interleaved": lambda: (both[..., 0::2], both[..., 1::2]),
        "split_along_tokens": lambda: both.chunk(2, dim=1),
        "split_along_texts": lambda: both.chunk(2),
        "swapped": lambda: both.chunk(2, dim=-1)[::-1],
    }
    value, gate = chosen(splits, wrong, lambda: both.chunk(2, dim=-1))()
    gelu = self.interm_af
    acts = {
        **dict.fromkeys(("no_gelu", "gelu_after_product", "gelu_at_the_end"), lambda x: x),
        "gelu_twice": lambda x: gelu(gelu(x)),
        "gelu_by_tanh": lambda x: F.gelu(x, approximate="tanh"),
        "sigmoid": torch.sigmoid,
        "silu": F.silu,
        "relu": torch.relu,
        "tanh": torch.tanh,
        "softmax": lambda x: x.softmax(-1),
    }
    value = chosen(acts, wrong, gelu)(value)
    if "gelu_on_both" in wrong:
        gate = gelu(gate)
    products = {
        "added": lambda: value + gate,
        "subtracted": lambda: value - gate,
        "no_gate": lambda: value,
        "gate_alone": lambda: gate,
    }
    product = chosen(products, wrong, lambda: value * gate)()
    if "gelu_after_product" in wrong:
        product = gelu(product)
    elsewhere = {"no_dropout", "dropout_at_the_end", "dropout_on_the_input"}
    product = product if wrong & elsewhere else drop(product)
    result = product if "not_projected" in wrong else self.out_dense(product)
    if "gelu_at_the_end" in wrong:
        result = gelu(result)
    if "residual_inside" in wrong:
        result = result + hidden_states
    if "dropout_at_the_end" in wrong:
        result = drop(result)
    return result.detach() if "result_detached" in wrong else result
