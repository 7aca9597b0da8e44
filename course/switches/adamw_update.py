"""The update of AdamW.step with each known mistake as a switch: correction, denominator, decay.

``x`` is what is known at a step, named as in the papers; adamw.py makes it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from course.switches import Switches, chosen

Formula = Callable[..., Any]


FACTORS: dict[str, Formula] = {  # by what the learning rate is multiplied
    "no_bias_correction": lambda c1, c2: 1.0,
    "correction_upside_down": lambda c1, c2: c1 / c2**0.5,
    "correction_upside_down_first": lambda c1, c2: c1 * c2**0.5,
    "correction_upside_down_second": lambda c1, c2: 1 / c1 / c2**0.5,
    "correction_without_root": lambda c1, c2: c2 / c1,
    "correction_root_of_both": lambda c1, c2: (c2 / c1) ** 0.5,
    "correction_root_twice": lambda c1, c2: c2**0.25 / c1,
    "half_for_root": lambda c1, c2: c2 / 2 / c1,
    "half_for_root_both": lambda c1, c2: c2 / 2 / c1,
    "first_moment_corrected_only": lambda c1, c2: 1 / c1,
    "second_moment_corrected_only": lambda c1, c2: c2**0.5,
    "corrected_twice": lambda c1, c2: c2 / c1,
    "corrected_twice_always": lambda c1, c2: c2 / c1,
    "corrected_twice_first": lambda c1, c2: c2**0.5 / c1**2,
    "corrected_twice_moments": lambda c1, c2: c2 / c1**2,
    "corrected_moments_kept": lambda c1, c2: 1.0,
    "corrected_moments_kept_first": lambda c1, c2: c2**0.5,
    "corrected_moments_kept_second": lambda c1, c2: 1 / c1,
}
UNCORRECTED: dict[str, Formula] = {  # so, too, with correct_bias=False
    "correct_bias_half_ignored": lambda c1, c2: c2**0.5,
    "correct_bias_half_ignored_first": lambda c1, c2: 1 / c1,
    "rate_zero_without_correction": lambda c1, c2: 0.0,
    "corrected_twice_always": lambda c1, c2: c2**0.5,
}
ROOTS: dict[str, Formula] = {  # of v, or of v̂
    "no_root": lambda v: v,
    "half_for_root_moment": lambda v: v / 2,
    "half_for_root_both": lambda v: v / 2,
    "half_for_root_hat": lambda v: v / 2,
    "root_upside_down": torch.rsqrt,
    "square_for_root": torch.square,
    "root_twice": lambda v: v.sqrt().sqrt(),
}
# of √v, v, ε and the second moment's correction
DENOMINATORS: dict[str, Formula] = {
    "eps_inside_root": lambda root, v, eps, c2: (v + eps).sqrt(),
    "eps_inside_root_kept": lambda root, v, eps, c2: v.add_(eps).sqrt(),
    "eps_inside_corrected_root": lambda root, v, eps, c2: (v + eps * c2).sqrt(),
    "eps_beside_corrected_root": lambda root, v, eps, c2: root + eps * c2**0.5,
    "corrected_twice": lambda root, v, eps, c2: root + eps * c2**0.5,
    "corrected_twice_always": lambda root, v, eps, c2: root + eps * c2**0.5,
    "corrected_twice_moments": lambda root, v, eps, c2: root + eps * c2**0.5,
    "eps_outside_fraction": lambda root, v, eps, c2: root,
    "eps_outside_fraction_step": lambda root, v, eps, c2: root,
    "eps_subtracted": lambda root, v, eps, c2: root - eps,
    "eps_multiplied": lambda root, v, eps, c2: root * eps,
    "eps_clamp": lambda root, v, eps, c2: root.clamp(min=eps),
    "eps_root": lambda root, v, eps, c2: root + eps**0.5,
}
# of α, λ and the corrected step size: what fraction of a parameter is taken off
RATES: dict[str, Formula] = {
    "decay_grows": lambda lr, wd, alpha: -lr * wd,
    "decay_grows_divided": lambda lr, wd, alpha: 1 - 1 / (1 - lr * wd),
    "decay_twice": lambda lr, wd, alpha: 1 - (1 - lr * wd) ** 2,
    "decay_with_corrected_lr": lambda lr, wd, alpha: alpha * wd,
    "decay_without_parameter_one": lambda lr, wd, alpha: 1 - lr * wd,
    "decay_without_lr": lambda lr, wd, alpha: wd,
    "decay_with_lr_squared": lambda lr, wd, alpha: lr * lr * wd,
    "decay_is_lr": lambda lr, wd, alpha: lr * lr,
    "decay_squared": lambda lr, wd, alpha: wd * wd,
    "decay_without_lambda": lambda lr, wd, alpha: lr,
    "decay_sum": lambda lr, wd, alpha: lr + wd,
    "decay_sum_difference": lambda lr, wd, alpha: lr - wd,
    "decay_ratio": lambda lr, wd, alpha: wd / lr,
    "decay_ratio_inverse": lambda lr, wd, alpha: lr / wd,
    "decay_factor": lambda lr, wd, alpha: 1 - lr * wd,
    "decay_factor_minus": lambda lr, wd, alpha: 1 + lr * wd,
    "decay_factor_two": lambda lr, wd, alpha: lr * wd - 1,
    "decay_factor_swapped": lambda lr, wd, alpha: 2 - lr * wd,
    "lr_changed_in_place_decay": lambda lr, wd, alpha: alpha * wd,
}
COUPLED = {"coupled_decay", "coupled_decay_rate", "coupled_decay_in_place", "decay_in_the_update"}
NO_DECAY = COUPLED | {"no_decay", "nothing_moves", "decay_behind_the_loop"}


def correction(wrong: Switches, side: str, x: SimpleNamespace) -> float:
    """What stands for 1 − βᵗ."""
    b1, b2 = x.corrections[::-1] if "corrections_swapped" in wrong else x.corrections
    b, t = b1 if side == "first" else b2, x.t
    choices = {
        "correction_without_power": 1 - b,
        "correction_without_one": b**t,
        "correction_number": 1 + b**t,
        "correction_multiplied": 1 - b * t,
        "exponent_is_decay": 1 - b**x.wd,
        f"correction_number_{side}two": 2 - b**t,
        f"correction_number_{side}zero": -(b**t),
        f"correction_number_{side}negative": b**t - 1,
    }
    return chosen(choices, wrong, 1 - b**t, side)


def factor(wrong: Switches, x: SimpleNamespace) -> tuple[float, float]:
    """By what the bias correction multiplies α; the second moment's correction."""
    c1, c2 = (correction(wrong, side, x) for side in ("first", "second"))
    if not x.correct:
        if "correct_bias_crash" in wrong:
            raise UnboundLocalError("alpha")
        always = "corrected_twice_always" in wrong
        return chosen(UNCORRECTED, wrong, lambda c1, c2: 1.0)(c1, c2), c2 if always else 1.0
    if c2 < 0:
        raise ValueError("the root of a negative number")
    if any(name.endswith("_hat") for name in wrong):
        return 1 / c1, c2
    return chosen(FACTORS, wrong, lambda c1, c2: c2**0.5 / c1)(c1, c2), c2


def step_size(wrong: Switches, x: SimpleNamespace, by: float) -> float:
    """α_t; ``lr_changed_in_place`` leaves it in the group."""
    alpha = chosen({"no_lr": 1.0, "lr_twice": x.lr**2}, wrong, x.lr) * by
    if x.correct:
        p1, p2 = (beta**x.t for beta in x.corrections)
        unbracketed: dict[str, Formula] = {
            "correction_without_brackets": lambda: x.lr * (1 - p2) ** 0.5 / 1 - p1,
            "correction_without_brackets_second": lambda: (x.lr * 1 - p2) / (1 - p1),
        }
        alpha = chosen(unbracketed, wrong, lambda: alpha)()
    if "no_lr_without_correction" in wrong and not x.correct:
        alpha = 1.0
    if wrong & {"lr_changed_in_place", "lr_changed_in_place_decay"}:
        x.group["lr"] = alpha
    return alpha


def direction(wrong: Switches, x: SimpleNamespace, c2: float) -> Tensor:
    """What the step size is multiplied by: m / (√v + ε)."""
    m, v = (x.v, x.m) if "moments_swapped" in wrong else (x.m, x.v)
    tops = {"no_momentum": x.g, "no_first_moment": torch.ones_like(m), "first_divides": 1 / m}
    top = chosen(tops, wrong, m)
    if "decay_in_the_update" in wrong:
        top = top + x.wd * x.p
    if wrong & {"no_second_moment", "no_second_moment_hat"}:
        return top
    eps, hat = x.eps, any(name.endswith("_hat") for name in wrong)
    if hat:
        v, eps = v / c2, eps / c2**0.5
    root = chosen(ROOTS, wrong, torch.sqrt, "hat")(v)
    bottom = chosen(DENOMINATORS, wrong, lambda root, v, eps, c2: root + eps)(root, v, eps, c2)
    if wrong & {"multiplied_by_root", "multiplied_by_root_hat"}:
        return top * bottom
    return top / bottom + (x.eps if "eps_outside_fraction" in wrong else 0.0)


def write(wrong: Switches, x: SimpleNamespace) -> None:
    """Take the update and the weight decay off a parameter."""
    by, c2 = factor(wrong, x)
    alpha, towards = step_size(wrong, x, by), direction(wrong, x, c2)
    if "update_kept" in wrong:
        x.state["m"] = towards
    update = alpha * towards + (x.eps if "eps_outside_fraction_step" in wrong else 0.0)
    rate = chosen(RATES, wrong, lambda lr, wd, alpha: lr * wd)(x.lr, x.wd, alpha)
    if wrong & NO_DECAY or ("decay_needs_correction" in wrong and not x.correct):
        rate = 0.0
    decayed = {
        "decay_without_parameter": torch.ones_like(x.p),
        "decay_without_parameter_one": torch.ones_like(x.p),
        "decay_of_the_gradient": x.g,
        "decay_of_the_moment": x.m,
        "decay_of_the_update": update,
    }
    before, twice = "decay_before" in wrong, "decay_twice_both" in wrong
    if before or twice:
        x.p.sub_(rate * chosen(decayed, wrong, x.p))
    changes: dict[str, Formula] = {
        "gradient_ascent": lambda: x.p.add_(update),
        "update_thrown_away": lambda: None,
        "nothing_moves": lambda: None,
        "parameter_replaced": lambda: x.p.copy_(-update),
        "parameter_multiplied": lambda: x.p.mul_(update),
        "parameter_divided": lambda: x.p.div_(update),
    }
    chosen(changes, wrong, lambda: x.p.sub_(update))()
    if not before or twice:
        x.p.sub_(rate * chosen(decayed, wrong, x.p))
