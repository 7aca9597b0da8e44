"""The functions of part 3, lessons/modern_bert.py, with each known mistake as a switch."""

from __future__ import annotations

import functools

import torch
from torch import Tensor
from torch.nn import functional as F

from course.switches import Switches, chosen, dropped

SIGNS = {  # of the sine in the first and in the second half
    "other_direction": (1, -1),
    "sign_in_the_first": (1, 1),
    "sign_in_the_second": (-1, -1),
}
BASES = {"base_ignored": 10_000, "global_base": 160_000}
EXPONENTS = {  # of the even numbers below the width: (W / 2,)
    "exponents_half_as_large": lambda numbers, width: numbers / 2 / width,
    "exponents_twice_as_large": lambda numbers, width: 2 * numbers / width,
    "exponents_from_one": lambda numbers, width: (numbers + 2) / width,
    "exponents_reversed": lambda numbers, width: numbers.flip(0) / width,
}
FREQUENCIES = {
    "frequencies_not_inverted": lambda powers: powers,
    "same_angle_for_all": torch.ones_like,
}
ANGLES = {  # of positions (L,) and frequencies (W / 2,)
    "positions_from_one": lambda x, positions, f: (positions + 1)[:, None] * f,
    "positions_backwards": lambda x, positions, f: positions.flip(0)[:, None] * f,
    "turned_by_head": lambda x, positions, f: torch.arange(x.size(1)).to(f)[:, None, None] * f,
}
ROTARY = {
    "pairs": "interleaved interleaved_then_halves halves_then_interleaved halves_swapped "
    "read_in_reverse".split(),
    "rotation": [*SIGNS, "sine_and_cosine_swapped", "second_stays", "turned_twice", "no_sine"],
    "positions": ANGLES,
    "base": BASES,
    "exponents": [*EXPONENTS, *FREQUENCIES],
    "type": ["type_lost", "angles_in_half_precision"],
}
HALVES = {  # of a window
    "whole_window": lambda window: window,
    "half_rounded_up": lambda window: (window + 1) // 2,
    "half_without_itself": lambda window: (window - 1) // 2,
    "quarter": lambda window: window // 4,
}
SEEN = {  # of the differences of positions d (L, L), and half the window
    "no_absolute_value": lambda d, half: d <= half,
    "no_absolute_value_other_side": lambda d, half: -d <= half,
    "around_the_end": lambda d, half: torch.minimum(d.abs(), len(d) - d.abs()) <= half,
    "first_token_only": lambda d, half: -d[0] <= half,
    "itself_only": lambda d, half: 0 * d[0] <= half,
    "past_only": lambda d, half: (d.abs() <= half) & (d >= 0),
    "future_only": lambda d, half: (d.abs() <= half) & (d <= 0),
    "window_ignored": lambda d, half: d.abs() <= len(d),
    "nothing_seen": lambda d, half: d.abs() < 0,
    "inverted": lambda d, half: d.abs() > half,
    "off_by_one": lambda d, half: d.abs() < half,
    "one_too_many": lambda d, half: d.abs() <= half + 1,
    "without_itself": lambda d, half: (d.abs() <= half) & (d != 0),
}
MASKS = {  # what is returned of the mask
    "additive": lambda mask: (~mask).float() * -1e9,
    "additive_infinite": lambda mask: torch.zeros(mask.shape).masked_fill(~mask, float("-inf")),
    "of_numbers": lambda mask: mask.long(),
}
MASK = {"half": HALVES, "distance": [*SEEN, "blocks"], "result": MASKS}
SPLITS = {  # of the projected states
    "swapped": lambda both: both.chunk(2, dim=-1)[::-1],
    "interleaved": lambda both: (both[..., 0::2], both[..., 1::2]),
}
ACTIVATIONS = {
    **dict.fromkeys(("gelu_after_product", "no_gelu"), lambda gelu, x: x),
    "gelu_twice": lambda gelu, x: gelu(gelu(x)),
    "gelu_by_tanh": lambda gelu, x: F.gelu(x, approximate="tanh"),
    "sigmoid": lambda gelu, x: torch.sigmoid(x),
    "silu": lambda gelu, x: F.silu(x),
    "relu": lambda gelu, x: torch.relu(x),
    "softmax": lambda gelu, x: x.softmax(-1),
    "tanh": lambda gelu, x: torch.tanh(x),
}
PRODUCTS = {
    "added": lambda value, gate: value + gate,
    "no_gate": lambda value, gate: value,
    "gate_alone": lambda value, gate: gate,
    "subtracted": lambda value, gate: value - gate,
}
GEGLU = {
    "dropout": "no_dropout dropout_at_the_end dropout_on_the_input dropout_in_evaluation".split(),
    "split": SPLITS,
    "activation": ["gelu_on_both", *ACTIVATIONS],
    "product": PRODUCTS,
    "end": "not_projected residual_inside result_detached gelu_at_the_end".split(),
}


def apply_rotary(wrong: Switches, x: Tensor, theta: float) -> Tensor:
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
    first_sign, second_sign = chosen(SIGNS, wrong, (-1, 1))
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


def angles_of(wrong: Switches, x: Tensor, theta: float, exact: torch.dtype) -> Tensor:
    """The angles by which the pairs of each token are turned: (L, W / 2)."""
    length, width = x.shape[-2:]
    numbers = torch.arange(0, width, 2, dtype=exact)
    exponents = chosen(EXPONENTS, wrong, lambda numbers, width: numbers / width)(numbers, width)
    powers = chosen(BASES, wrong, theta) ** exponents
    frequencies = chosen(FREQUENCIES, wrong, lambda powers: 1 / powers)(powers)
    positions = torch.arange(length, dtype=exact)
    return chosen(ANGLES, wrong, lambda x, positions, f: positions[:, None] * f)(
        x, positions, frequencies
    )


def local_mask(wrong: Switches, length: int, window: int) -> Tensor:
    """Task 3.2, with the mistakes in ``wrong``: (L, L), True where a token sees another one."""
    positions = torch.arange(length)
    half = chosen(HALVES, wrong, lambda window: window // 2)(window)
    differences = positions[:, None] - positions
    mask = chosen(SEEN, wrong, lambda d, half: d.abs() <= half)(differences, half)
    if "blocks" in wrong:
        mask = positions[:, None] // window == positions // window
    return chosen(MASKS, wrong, lambda mask: mask)(mask)


def geglu(wrong: Switches, self, hidden_states: Tensor) -> Tensor:
    """Task 3.3, with the mistakes in ``wrong``: (B, L, D) → (B, L, D)."""
    gelu = self.interm_af
    drop = functools.partial(dropped, wrong, self.out_dropout)
    given = drop(hidden_states) if "dropout_on_the_input" in wrong else hidden_states
    both = self.interm_dense(given)
    value, gate = chosen(SPLITS, wrong, lambda both: both.chunk(2, dim=-1))(both)
    if "gelu_at_the_end" not in wrong:
        value = chosen(ACTIVATIONS, wrong, lambda gelu, x: gelu(x))(gelu, value)
    if "gelu_on_both" in wrong:
        gate = gelu(gate)
    product = chosen(PRODUCTS, wrong, lambda value, gate: value * gate)(value, gate)
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
