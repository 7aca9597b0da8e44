"""AdamW.step once, with each known mistake as a switch in it. Staff only.

A switch without a sentence of its own in adamw.toml is the mistake that its name without the last
word says, written in another way that computes other numbers. ``decay_before`` is no mistake.
"Hat" is a mistake in an AdamW that corrects the moments, m̂ and v̂, instead of the step size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

# slot: its switches, of which a wrong function has one at most
SLOTS = {
    "order": "decay_before",
    "loop": "return_in_the_loop return_in_the_loop_group return_in_the_loop_first "
    "update_behind_the_loop update_behind_both_loops first_parameter_of_the_group",
    "missing": "missing_gradient_is_zero missing_gradient_resets missing_gradient_crashes "
    "missing_gradient_ends missing_gradient_decays",
    "keys": "first_group_for_all hyper_parameters_from_defaults lr_from_defaults eps_is_lr "
    "eps_is_decay decay_is_eps lr_is_decay lr_is_eps lr_and_decay_swapped condition_is_decay",
    "betas": "betas_in_code betas_swapped one_beta_for_both one_beta_for_both_everywhere "
    "one_beta_for_both_averages one_beta_for_both_second one_beta_for_both_secondaverages "
    "one_beta_for_both_secondcorrections betas_mixed betas_mixed_new betas_mixed_second "
    "betas_mixed_secondnew",
    "gradient": "parameter_for_gradient gradient_normalised gradient_clipped "
    "gradient_clipped_norm gradient_changed gradient_changed_zeroed gradient_changed_scaled",
    "state": "moments_shared nothing_kept state_not_saved one_tensor_for_both first_step_skipped "
    "begins_with_gradient begins_with_gradient_first begins_with_gradient_second "
    "begins_with_parameter begins_with_parameter_second moment_is_parameter "
    "moment_is_parameter_second begins_with_ones begins_with_ones_first begins_with_ones_second",
    "kept": "moments_not_kept moments_not_kept_first moments_not_kept_second "
    "moments_of_the_first_step moments_before_the_step moments_before_the_step_first "
    "moments_before_the_step_second corrected_moments_kept corrected_moments_kept_first "
    "corrected_moments_kept_second corrected_moments_kept_twice root_kept root_kept_eps "
    "update_kept second_moment_zero",
    "count": "step_from_zero steps_from_two step_count_shared step_count_shared_all "
    "step_count_of_the_group step_count_of_the_group_all counted_twice",
    "first": "first_is_sum first_weights_swapped first_weight first_weight_plus "
    "first_weight_two first_weight_minus first_weight_decayed first_weight_lerp "
    "first_weight_lerptwo first_weight_lerpminus first_not_decayed first_takes_square no_momentum",
    "second": "second_is_sum second_weights_swapped second_weight second_weight_plus "
    "second_weight_two second_weight_minus second_weight_decayed second_weight_lerp "
    "second_weight_lerptwo second_not_decayed no_square no_square_doubled value_for_square "
    "square_of_the_moment square_averaged square_averaged_sum product_of_both",
    "both": "moments_are_sums average_weights_swapped new_weights_beta moments_swapped",
    "root": "no_root no_root_hat half_for_root_moment half_for_root_hat root_upside_down "
    "root_upside_down_hat square_for_root square_for_root_hat root_twice root_twice_hat "
    "no_second_moment no_second_moment_hat multiplied_by_root multiplied_by_root_hat",
    "eps": "no_eps eps_in_code eps_in_code_default eps_inside_root eps_inside_root_kept "
    "eps_inside_corrected_root eps_beside_corrected_root eps_outside_fraction "
    "eps_outside_fraction_step eps_subtracted eps_multiplied eps_clamp eps_root",
    "condition": "correct_bias_ignored correct_bias_inverted correct_bias_crash "
    "correct_bias_half_ignored correct_bias_half_ignored_first rate_zero_without_correction",
    "correction": "no_bias_correction correction_upside_down correction_upside_down_first "
    "correction_upside_down_second correction_without_power correction_without_power_first "
    "correction_without_power_second correction_without_root half_for_root half_for_root_both "
    "first_moment_corrected_only second_moment_corrected_only corrections_swapped "
    "correction_without_brackets correction_without_brackets_second corrected_twice "
    "corrected_twice_always corrected_twice_first corrected_twice_moments "
    "correction_without_one correction_without_one_first correction_without_one_second "
    "correction_number correction_number_first correction_number_second "
    "correction_number_two correction_number_secondtwo correction_number_zero "
    "correction_multiplied correction_multiplied_first correction_root_of_both "
    "correction_root_twice exponent_is_decay exponent_is_decay_first "
    "exponent_is_decay_second",
    "lr": "no_lr lr_twice lr_changed_in_place lr_changed_in_place_decay",
    "update": "gradient_ascent update_thrown_away nothing_moves parameter_replaced "
    "parameter_multiplied parameter_divided first_divides",
    "decay": "no_decay decay_grows decay_grows_divided decay_twice decay_twice_both "
    "coupled_decay coupled_decay_rate coupled_and_decoupled coupled_and_decoupled_rate "
    "coupled_decay_in_place decay_in_the_update decay_with_corrected_lr "
    "decay_without_parameter decay_without_parameter_one decay_without_lr decay_with_lr_squared "
    "decay_is_lr decay_of_the_gradient decay_of_the_moment decay_of_the_update decay_squared "
    "decay_without_lambda decay_sum decay_sum_difference decay_ratio decay_ratio_inverse "
    "decay_factor decay_factor_minus decay_factor_two decay_factor_swapped "
    "decay_needs_correction",
}

Formula = Callable[..., Any]


def choose(wrong: frozenset[str], choices: Mapping[str, Any], usual: Any) -> Any:
    """The value of the switch that is on, else the usual one."""
    return next((value for name, value in choices.items() if name in wrong), usual)


# ---------------------------------------------------------------------------------------------
# The loop over the parameters


@torch.no_grad()
def step(wrong: frozenset[str], self: torch.optim.Optimizer, closure: Any = None) -> Any:
    """AdamW.step with the mistakes in ``wrong``."""
    loss = None
    if closure is not None:
        with torch.enable_grad():
            loss = closure()
    self.calls = vars(self).get("calls", 0) + 1
    for group in self.param_groups:
        group["calls"] = group.get("calls", 0) + 1
        for p in parameters_of(wrong, self, group):
            if p.grad is None:
                if "missing_gradient_ends" in wrong:
                    return loss
                if not goes_on(wrong, self, group, p):
                    continue
            elif p.grad.is_sparse:
                raise RuntimeError("no sparse gradients")
            update(wrong, self, group, p)
            if "return_in_the_loop" in wrong:
                return loss
            if "return_in_the_loop_first" in wrong:
                break
        if "return_in_the_loop_group" in wrong:
            return loss
    return loss


def parameters_of(wrong: frozenset[str], self: Any, group: dict) -> list[Tensor]:
    """The parameters of a group that are updated."""
    if "update_behind_the_loop" in wrong:
        return group["params"][-1:]
    if "update_behind_both_loops" in wrong:
        return group["params"][-1:] if group is self.param_groups[-1] else []
    return group["params"]


def goes_on(wrong: frozenset[str], self: Any, group: dict, p: Tensor) -> bool:
    """Whether a parameter without a gradient is updated all the same."""
    if "missing_gradient_resets" in wrong:
        self.state[p] = {}
    if "missing_gradient_decays" in wrong:
        p.mul_(1 - group["lr"] * group["weight_decay"])
    return bool(wrong & {"missing_gradient_is_zero", "missing_gradient_crashes"})


def update(wrong: frozenset[str], self: Any, group: dict, p: Tensor) -> None:
    """Update one parameter, whose state is made if it has none."""
    h = hyper_parameters(wrong, self, group)
    g = gradient(wrong, h, p)
    state = state_of(wrong, self, p)
    fresh = "m" not in state
    if fresh:
        begin(wrong, state, p, g)
        if "first_step_skipped" in wrong:
            return
    t = count(wrong, self, group, state)
    m, v = moments(wrong, h, state, g, p)
    if fresh or "moments_of_the_first_step" not in wrong:
        m, v = keep(wrong, h, state, m, v, t)
    else:
        m, v = state["m"], state["v"]
    target = group["params"][0] if "first_parameter_of_the_group" in wrong else p
    write(wrong, h, group, state, target, g, m, v, t)
    if "gradient_changed_zeroed" in wrong and p.grad is not None:
        p.grad.zero_()


def hyper_parameters(wrong: frozenset[str], self: Any, group: dict) -> SimpleNamespace:
    """What the group sets: lr, the βs of the averages and of the corrections, eps, decay."""
    sources = {
        "first_group_for_all": self.param_groups[0],
        "hyper_parameters_from_defaults": self.defaults,
    }
    source = choose(wrong, sources, group)
    lr, eps, decay = (source[name] for name in ("lr", "eps", "weight_decay"))
    lrs = {
        "lr_from_defaults": self.defaults["lr"],
        "lr_is_decay": decay,
        "lr_is_eps": eps,
        "lr_and_decay_swapped": decay,
    }
    epsilons = {
        "eps_is_lr": lr,
        "eps_is_decay": decay,
        "eps_in_code": 1e-8,
        "eps_in_code_default": 1e-6,
        "no_eps": 0.0,
    }
    correct = source["correct_bias"]
    conditions = {
        "correct_bias_ignored": True,
        "correct_bias_inverted": not correct,
        "condition_is_decay": bool(decay),
    }
    averages, corrections = betas(wrong, *source["betas"])
    return SimpleNamespace(
        lr=choose(wrong, lrs, lr),
        betas=averages,
        corrections=corrections,
        eps=choose(wrong, epsilons, eps),
        decay=choose(wrong, {"decay_is_eps": eps, "lr_and_decay_swapped": lr}, decay),
        correct=choose(wrong, conditions, correct),
    )


def betas(wrong: frozenset[str], b1: float, b2: float) -> tuple[tuple, tuple]:
    """(β₁, β₂) of the averages, and of the corrections."""
    everywhere = {
        "betas_in_code": (0.9, 0.999),
        "betas_swapped": (b2, b1),
        "one_beta_for_both_everywhere": (b1, b1),
        "one_beta_for_both_second": (b2, b2),
    }
    averages = {
        "one_beta_for_both_averages": (b1, b1),
        "one_beta_for_both_secondaverages": (b2, b2),
    }
    corrections = {
        "one_beta_for_both": (b1, b1),
        "one_beta_for_both_secondcorrections": (b2, b2),
    }
    usual = choose(wrong, everywhere, (b1, b2))
    return choose(wrong, averages, usual), choose(wrong, corrections, usual)


def gradient(wrong: frozenset[str], h: SimpleNamespace, p: Tensor) -> Tensor:
    """The gradient that is averaged; it may be changed in place."""
    g = p.grad
    if g is None and "missing_gradient_is_zero" in wrong:
        g = torch.zeros_like(p)
    if "coupled_decay_in_place" in wrong:
        g.add_(p, alpha=h.decay)
    if wrong & {"coupled_decay", "coupled_and_decoupled"}:
        g = g + h.decay * p
    if wrong & {"coupled_decay_rate", "coupled_and_decoupled_rate"}:
        g = g + h.lr * h.decay * p
    changes: dict[str, Formula] = {
        "parameter_for_gradient": lambda: p.clone(),
        "gradient_normalised": lambda: g / g.norm(),
        "gradient_clipped": lambda: g.clamp(-1, 1),
        "gradient_clipped_norm": lambda: g * min(1.0, 1 / (g.norm().item() + 1e-6)),
    }
    return choose(wrong, changes, lambda: g)()


# ---------------------------------------------------------------------------------------------
# The state: m, v and t


def state_of(wrong: frozenset[str], self: Any, p: Tensor) -> dict:
    """The dictionary in which m, v and t of a parameter are kept."""
    if "moments_shared" in wrong:
        return self.state
    if "nothing_kept" in wrong:
        return {}
    if "state_not_saved" in wrong:
        return vars(self).setdefault("own", {}).setdefault(id(p), {})
    return self.state[p]


def begin(wrong: frozenset[str], state: dict, p: Tensor, g: Tensor) -> None:
    """Make t, m and v before a parameter's first step."""
    state.update(t=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
    begins: dict[str, Formula] = {
        "begins_with_gradient": lambda: {"m": g.clone(), "v": g * g},
        "begins_with_gradient_first": lambda: {"m": g.clone()},
        "begins_with_gradient_second": lambda: {"v": g * g},
        "begins_with_parameter": lambda: {"m": p.clone()},
        "begins_with_parameter_second": lambda: {"v": p.clone()},
        "moment_is_parameter": lambda: {"m": p.data},
        "moment_is_parameter_second": lambda: {"v": p.data},
        "begins_with_ones": lambda: {"m": torch.ones_like(p), "v": torch.ones_like(p)},
        "begins_with_ones_first": lambda: {"m": torch.ones_like(p)},
        "begins_with_ones_second": lambda: {"v": torch.ones_like(p)},
        "one_tensor_for_both": lambda: {"v": state["m"]},
    }
    state.update(choose(wrong, begins, dict)())


def count(wrong: frozenset[str], self: Any, group: dict, state: dict) -> int:
    """Count this step; its number."""
    state["t"] += 1 + ("counted_twice" in wrong)
    if "step_count_shared" in wrong:
        group["t"] = group.get("t", 0) + 1
    if "step_count_shared_all" in wrong:
        self.t = vars(self).get("t", 0) + 1
    numbers: dict[str, Formula] = {
        "step_from_zero": lambda: state["t"] - 1,
        "steps_from_two": lambda: state["t"] + 1,
        "step_count_shared": lambda: group["t"],
        "step_count_shared_all": lambda: self.t,
        "step_count_of_the_group": lambda: group["calls"],
        "step_count_of_the_group_all": lambda: self.calls,
    }
    return choose(wrong, numbers, lambda: state["t"])()


def weights(wrong: frozenset[str], moment: str, beta: float, other: float) -> tuple[float, float]:
    """How much of the old average stays, and how much of the new gradient comes to it.

    Args:
        moment: "first" or "second", whose β is ``beta``; the other one's is ``other``.
    """
    mixed = "betas_mixed" if moment == "first" else "betas_mixed_second"
    mixed_new = "betas_mixed_new" if moment == "first" else "betas_mixed_secondnew"
    choices = {
        "moments_are_sums": (beta, 1.0),
        "average_weights_swapped": (1 - beta, beta),
        "new_weights_beta": (beta, beta),
        mixed: (other, 1 - beta),
        mixed_new: (beta, 1 - other),
        f"{moment}_is_sum": (beta, 1.0),
        f"{moment}_weights_swapped": (1 - beta, beta),
        f"{moment}_weight": (beta, beta),
        f"{moment}_weight_plus": (beta, 1 + beta),
        f"{moment}_weight_two": (beta, 2 - beta),
        f"{moment}_weight_minus": (beta, -beta),
        f"{moment}_weight_decayed": (1 - beta, 1 - beta),
        f"{moment}_weight_lerp": (-beta, 1 + beta),
        f"{moment}_weight_lerptwo": (beta - 1, 2 - beta),
        f"{moment}_weight_lerpminus": (1 + beta, -beta),
        f"{moment}_not_decayed": (1.0, 1 - beta),
        f"moments_not_kept_{moment}": (0.0, 1 - beta),
        "moments_not_kept": (0.0, 1 - beta),
    }
    return choose(wrong, choices, (beta, 1 - beta))


SQUARES: dict[str, Formula] = {
    "no_square": lambda g, m: g,
    "no_square_doubled": lambda g, m: 2 * g,
    "value_for_square": lambda g, m: g.abs(),
    "square_of_the_moment": lambda g, m: m * m,
    "square_averaged": lambda g, m: (g * g).mean(),
    "square_averaged_sum": lambda g, m: (g * g).sum(),
    "product_of_both": lambda g, m: g * m,
    "gradient_changed": lambda g, m: g.mul_(g),
}


def moments(
    wrong: frozenset[str], h: SimpleNamespace, state: dict, g: Tensor, p: Tensor
) -> tuple[Tensor, Tensor]:
    """The new averages m and v."""
    (keep1, new1), (keep2, new2) = (
        weights(wrong, moment, beta, other)
        for moment, beta, other in zip(("first", "second"), h.betas, h.betas[::-1], strict=True)
    )
    m = keep1 * state["m"] + new1 * (g * g if "first_takes_square" in wrong else g)
    if wrong & {"one_tensor_for_both", "moment_is_parameter"}:
        m = state["m"].copy_(m)
    if "gradient_changed_scaled" in wrong:
        g.mul_(new1)
    square = choose(wrong, SQUARES, lambda g, m: g * g)(g, m)
    v = keep2 * state["v"] + new2 * square
    if wrong & {"one_tensor_for_both", "moment_is_parameter_second"}:
        v = state["v"].copy_(v)
    if "second_moment_zero" in wrong:
        v = torch.zeros_like(v)
    return m, v


def keep(
    wrong: frozenset[str], h: SimpleNamespace, state: dict, m: Tensor, v: Tensor, t: int
) -> tuple[Tensor, Tensor]:
    """Keep the averages for the next step; those that this one computes with."""
    old = state["m"], state["v"]
    c1, c2 = (1 - beta**t if h.correct else 1.0 for beta in h.corrections)
    if wrong & {f"corrected_moments_kept{more}" for more in ("", "_first", "_twice")}:
        m = m / c1
    if wrong & {f"corrected_moments_kept{more}" for more in ("", "_second", "_twice")}:
        v = v / c2
    state.update(m=m, v=v)
    if wrong & {"moments_before_the_step", "moments_before_the_step_first"}:
        m = old[0]
    if wrong & {"moments_before_the_step", "moments_before_the_step_second"}:
        v = old[1]
    if "root_kept" in wrong:
        state["v"] = v.sqrt()
    if "root_kept_eps" in wrong:
        state["v"] = v.sqrt() + h.eps
    return m, v


# ---------------------------------------------------------------------------------------------
# The step: correction, denominator, decay

# what stands for 1 − β₁ᵗ and 1 − β₂ᵗ
CORRECTIONS: dict[str, Formula] = {
    "correction_without_power": lambda b1, b2, t, wd: (1 - b1, 1 - b2),
    "correction_without_power_first": lambda b1, b2, t, wd: (1 - b1, 1 - b2**t),
    "correction_without_power_second": lambda b1, b2, t, wd: (1 - b1**t, 1 - b2),
    "corrections_swapped": lambda b1, b2, t, wd: (1 - b2**t, 1 - b1**t),
    "correction_without_one": lambda b1, b2, t, wd: (b1**t, b2**t),
    "correction_without_one_first": lambda b1, b2, t, wd: (b1**t, 1 - b2**t),
    "correction_without_one_second": lambda b1, b2, t, wd: (1 - b1**t, b2**t),
    "correction_number": lambda b1, b2, t, wd: (1 + b1**t, 1 + b2**t),
    "correction_number_first": lambda b1, b2, t, wd: (1 + b1**t, 1 - b2**t),
    "correction_number_second": lambda b1, b2, t, wd: (1 - b1**t, 1 + b2**t),
    "correction_number_two": lambda b1, b2, t, wd: (2 - b1**t, 1 - b2**t),
    "correction_number_secondtwo": lambda b1, b2, t, wd: (1 - b1**t, 2 - b2**t),
    "correction_number_zero": lambda b1, b2, t, wd: (-(b1**t), 1 - b2**t),
    "correction_multiplied": lambda b1, b2, t, wd: (1 - b1 * t, 1 - b2 * t),
    "correction_multiplied_first": lambda b1, b2, t, wd: (1 - b1 * t, 1 - b2**t),
    "exponent_is_decay": lambda b1, b2, t, wd: (1 - b1**wd, 1 - b2**wd),
    "exponent_is_decay_first": lambda b1, b2, t, wd: (1 - b1**wd, 1 - b2**t),
    "exponent_is_decay_second": lambda b1, b2, t, wd: (1 - b1**t, 1 - b2**wd),
}
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
ROOTS: dict[str, Formula] = {
    "no_root": lambda v: v,
    "half_for_root_moment": lambda v: v / 2,
    "half_for_root_both": lambda v: v / 2,
    "root_upside_down": torch.rsqrt,
    "square_for_root": torch.square,
    "root_twice": lambda v: v.sqrt().sqrt(),
}
HATS: dict[str, Formula] = {  # of v̂
    "no_root_hat": lambda v: v,
    "half_for_root_hat": lambda v: v / 2,
    "root_upside_down_hat": torch.rsqrt,
    "square_for_root_hat": torch.square,
    "root_twice_hat": lambda v: v.sqrt().sqrt(),
    "no_second_moment_hat": torch.sqrt,
    "multiplied_by_root_hat": torch.sqrt,
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
}
NO_DECAY = {
    "no_decay",
    "nothing_moves",
    "coupled_decay",
    "coupled_decay_rate",
    "coupled_decay_in_place",
    "decay_in_the_update",
}


def factor(wrong: frozenset[str], h: SimpleNamespace, t: int) -> tuple[float, float]:
    """By what the bias correction multiplies the learning rate; the second moment's correction."""
    b1, b2 = h.corrections
    formula = choose(wrong, CORRECTIONS, lambda b1, b2, t, wd: (1 - b1**t, 1 - b2**t))
    c1, c2 = formula(b1, b2, t, h.decay)
    if not h.correct:
        if "correct_bias_crash" in wrong:
            raise UnboundLocalError("alpha")
        always = "corrected_twice_always" in wrong
        return choose(wrong, UNCORRECTED, lambda c1, c2: 1.0)(c1, c2), c2 if always else 1.0
    if c2 < 0:
        raise ValueError("the root of a negative number")
    if any(name.endswith("_hat") for name in wrong):
        return 1 / c1, c2
    return choose(wrong, FACTORS, lambda c1, c2: c2**0.5 / c1)(c1, c2), c2


def step_size(wrong: frozenset[str], h: SimpleNamespace, group: dict, t: int) -> float:
    """α_t; ``lr_changed_in_place`` leaves it in the group."""
    by, c2 = factor(wrong, h, t)
    if "correction_without_brackets" in wrong and h.correct:
        alpha = h.lr * c2**0.5 / 1 - h.corrections[0] ** t
    elif "correction_without_brackets_second" in wrong and h.correct:
        alpha = (h.lr * 1 - h.corrections[1] ** t) / (1 - h.corrections[0] ** t)
    else:
        alpha = choose(wrong, {"no_lr": 1.0, "lr_twice": h.lr**2}, h.lr) * by
    if wrong & {"lr_changed_in_place", "lr_changed_in_place_decay"}:
        group["lr"] = alpha
    return alpha


def direction(
    wrong: frozenset[str], h: SimpleNamespace, p: Tensor, g: Tensor, m: Tensor, v: Tensor, t: int
) -> Tensor:
    """What the step size is multiplied by: m / (√v + ε)."""
    if "moments_swapped" in wrong:
        m, v = v, m
    top = g if "no_momentum" in wrong else m
    if "first_divides" in wrong:
        top = 1 / m
    if "decay_in_the_update" in wrong:
        top = top + h.decay * p
    if wrong & {"no_second_moment", "no_second_moment_hat"}:
        return top
    c2, eps = factor(wrong, h, t)[1], h.eps
    if wrong & HATS.keys():
        v, eps = v / c2, eps / c2**0.5
    root = choose(wrong, ROOTS | HATS, torch.sqrt)(v)
    bottom = choose(wrong, DENOMINATORS, lambda root, v, eps, c2: root + eps)(root, v, eps, c2)
    if wrong & {"multiplied_by_root", "multiplied_by_root_hat"}:
        return top * bottom
    return top / bottom + (h.eps if "eps_outside_fraction" in wrong else 0.0)


def write(
    wrong: frozenset[str],
    h: SimpleNamespace,
    group: dict,
    state: dict,
    p: Tensor,
    g: Tensor,
    m: Tensor,
    v: Tensor,
    t: int,
) -> None:
    """Take the update and the weight decay off a parameter."""
    alpha = step_size(wrong, h, group, t)
    update = alpha * direction(wrong, h, p, g, m, v, t)
    if "update_kept" in wrong:
        state["m"] = update / alpha
    if "eps_outside_fraction_step" in wrong:
        update = update + h.eps
    lr = alpha if "lr_changed_in_place_decay" in wrong else h.lr
    rate = choose(wrong, RATES, lambda lr, wd, alpha: lr * wd)(lr, h.decay, alpha)
    if wrong & NO_DECAY or ("decay_needs_correction" in wrong and not h.correct):
        rate = 0.0
    if "decay_twice_both" in wrong or "decay_before" in wrong:
        p.sub_(rate * decayed(wrong, p, g, m, update))
    change(wrong, p, update)
    if "decay_before" not in wrong or "decay_twice_both" in wrong:
        p.sub_(rate * decayed(wrong, p, g, m, update))


def decayed(wrong: frozenset[str], p: Tensor, g: Tensor, m: Tensor, update: Tensor) -> Tensor:
    """What weight decay takes a fraction of: the parameter."""
    choices = {
        "decay_without_parameter": torch.ones_like(p),
        "decay_without_parameter_one": torch.ones_like(p),
        "decay_of_the_gradient": g,
        "decay_of_the_moment": m,
        "decay_of_the_update": update,
    }
    return choose(wrong, choices, p)


def change(wrong: frozenset[str], p: Tensor, update: Tensor) -> None:
    """Take the update off a parameter."""
    changes: dict[str, Formula] = {
        "gradient_ascent": lambda: p.add_(update),
        "update_thrown_away": lambda: p,
        "nothing_moves": lambda: p,
        "parameter_replaced": lambda: p.copy_(-update),
        "parameter_multiplied": lambda: p.mul_(update),
        "parameter_divided": lambda: p.div_(update),
    }
    choose(wrong, changes, lambda: p.sub_(update))()
