"""AdamW.step, Task 1.5, with each known mistake as a switch: the loops, the gradient, m, v and t.

A switch without a sentence of its own in adamw.toml is another form of the mistake that its name
without the last word says; it computes other numbers. ``…_first`` and ``…_second`` are mistakes in
one moment only, ``…_hat`` those in an AdamW that corrects the moments, m̂ and v̂, instead of the step
size. ``decay_before`` is no mistake.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from course.switches import Switches, chosen
from course.switches.adamw_update import Formula, write


def sides(names: str) -> str:
    """Switches that may be on for both moments, or (without a mark) for one of them only."""
    return " ".join(f"{x} {x.strip('*')}_first {x.strip('*')}_second" for x in names.split())


WEIGHTS = "plus two decayed lerp lerptwo lambda"
MARKED = {  # two with * come together where their slots differ, two with ** without decay, too
    "order": "decay_before",
    "loop": "return_in_the_loop* return_in_the_loop_group return_in_the_loop_break "
    "update_behind_the_loop update_behind_the_loop_all update_behind_both_loops "
    "update_behind_both_loops_all first_parameter_of_the_group "
    "first_parameter_of_the_group_state last_parameter_of_the_group",
    "missing": "missing_gradient_is_zero missing_gradient_resets missing_gradient_crashes "
    "missing_gradient_ends missing_gradient_decays missing_gradient_inverted",
    "betas": "betas_in_code betas_swapped** one_beta_for_both* one_beta_for_both_everywhere "
    "one_beta_for_both_averages one_beta_for_both_second one_beta_for_both_secondaverages "
    "one_beta_for_both_secondcorrections betas_mixed_first betas_mixed_second "
    "betas_mixed_firstnew betas_mixed_secondnew",
    "gradient": "parameter_for_gradient gradient_normalised gradient_clipped "
    "gradient_clipped_norm gradient_changed gradient_changed_zeroed gradient_changed_scaled",
    "state": "moments_shared nothing_kept* state_not_saved one_tensor_for_both first_step_skipped "
    "moment_is_parameter_first moment_is_parameter_second begins_with_parameter_first "
    "begins_with_parameter_second " + sides("begins_with_gradient* begins_with_ones"),
    "kept": "moments_not_kept** moments_not_kept_first* moments_not_kept_second* "
    + sides("moments_before_the_step* corrected_moments_kept*")
    + " moments_of_the_first_step corrected_moments_kept_twice root_kept root_kept_eps "
    "update_kept second_moment_zero",
    "count": "step_from_zero steps_from_two* step_count_shared* step_count_shared_all "
    "step_count_of_the_group* step_count_of_the_group_all counted_twice",
    "average": "moments_are_sums** moments_are_sums_first* moments_are_sums_second* "
    + sides("average_weights_swapped* average_weight average_not_decayed")
    + "".join(f" average_weight_{side}{w}" for side in ("first", "second") for w in WEIGHTS.split())
    + " average_weight_firstminus",
    "first": "first_takes_square no_momentum* no_first_moment moments_swapped",
    "second": "no_square** no_square_doubled value_for_square* square_of_the_moment* "
    "square_averaged square_averaged_sum product_of_both",
    "root": "no_root** no_root_hat* half_for_root_moment* half_for_root_hat root_upside_down "
    "root_upside_down_hat square_for_root square_for_root_hat root_twice root_twice_hat "
    "no_second_moment* no_second_moment_hat multiplied_by_root multiplied_by_root_hat",
    "eps": "no_eps* eps_in_code* eps_in_code_default eps_inside_root** eps_inside_root_kept "
    "eps_inside_corrected_root* eps_beside_corrected_root** eps_outside_fraction* "
    "eps_outside_fraction_step eps_subtracted eps_multiplied eps_clamp eps_root",
    "condition": "correct_bias_ignored* correct_bias_inverted* correct_bias_crash "
    "correct_bias_half_ignored* correct_bias_half_ignored_first rate_zero_without_correction "
    "no_lr_without_correction",
    "correction": sides(
        "correction_upside_down* correction_without_power** correction_without_one* "
        "correction_number exponent_is_decay"
    )
    + " no_bias_correction** correction_without_root** half_for_root* half_for_root_both "
    "first_moment_corrected_only* second_moment_corrected_only* corrections_swapped* "
    "correction_without_brackets* correction_without_brackets_second corrected_twice* "
    "corrected_twice_always corrected_twice_first corrected_twice_moments "
    "correction_number_firsttwo correction_number_secondtwo correction_number_firstzero "
    "correction_number_firstnegative correction_multiplied_first "
    "correction_root_of_both correction_root_twice",
    "lr": "no_lr* lr_twice lr_changed_in_place* lr_changed_in_place_decay",
    "update": "gradient_ascent* update_thrown_away* nothing_moves parameter_replaced "
    "parameter_multiplied parameter_divided first_divides",
    "decay": "no_decay* decay_grows* decay_grows_divided decay_twice* decay_twice_both "
    "coupled_decay* coupled_decay_rate coupled_and_decoupled* coupled_and_decoupled_rate "
    "coupled_decay_in_place decay_in_the_update* decay_with_corrected_lr* "
    "decay_without_parameter* decay_without_parameter_one decay_without_lr* decay_with_lr_squared* "
    "decay_is_lr decay_of_the_gradient* decay_of_the_moment decay_of_the_update decay_squared "
    "decay_without_lambda decay_sum decay_sum_difference decay_ratio decay_ratio_inverse "
    "decay_factor decay_factor_minus decay_factor_two decay_factor_swapped "
    "decay_needs_correction decay_behind_the_loop",
    "keys": "first_group_for_all hyper_parameters_from_defaults lr_from_defaults eps_is_lr "
    "eps_is_decay decay_is_eps lr_is_decay lr_is_eps lr_and_decay_swapped condition_is_decay",
}
SLOTS = {slot: names.replace("*", "").split() for slot, names in MARKED.items()}


def combinations() -> Iterator[Switches]:
    """Each mistake alone, then those that come together."""
    slot_of = {name: slot for slot, names in SLOTS.items() for name in names}
    yield from (frozenset([name]) for name, slot in slot_of.items() if slot != "order")
    for mark, others in (("*", []), ("**", ["no_decay"])):
        marked = [x for names in MARKED.values() for x in names.split() if x.endswith(mark)]
        names = [name.strip("*") for name in marked]
        for first, second in itertools.combinations(names, 2):
            if slot_of[first] != slot_of[second]:
                yield frozenset([first, second, *others])


@torch.no_grad()
def step(wrong: Switches, self: torch.optim.Optimizer, closure: Any = None) -> Any:
    """AdamW.step with the mistakes in ``wrong``."""
    loss = None
    if closure is not None:
        with torch.enable_grad():
            loss = closure()
    self.calls = vars(self).get("calls", 0) + 1
    for group in self.param_groups:
        group["calls"] = group.get("calls", 0) + 1
    if any(name.startswith("update_behind") for name in wrong):
        behind(wrong, self)
        return loss
    for group in self.param_groups:
        for p in group["params"]:
            if (p.grad is None) != ("missing_gradient_inverted" in wrong):
                if "missing_gradient_ends" in wrong:
                    return loss
                if "missing_gradient_resets" in wrong:
                    self.state[p] = {}
                if "missing_gradient_decays" in wrong:
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                if not wrong & {"missing_gradient_is_zero", "missing_gradient_crashes"}:
                    continue
            elif p.grad.is_sparse:
                raise RuntimeError("no sparse gradients")
            update(wrong, self, group, p, p.grad)
            if "return_in_the_loop" in wrong:
                return loss
            if "return_in_the_loop_break" in wrong:
                break
        if "decay_behind_the_loop" in wrong:
            p.mul_(1 - group["lr"] * group["weight_decay"])
        if "return_in_the_loop_group" in wrong:
            return loss
    return loss


def behind(wrong: Switches, self: Any) -> None:
    """Update as lines behind a loop do: the last parameter, on the last gradient that was read.

    ``…_all``: the gradient is read behind the loop, too, so it is the last parameter's, or None.
    """
    both = any("both_loops" in name for name in wrong)
    for group in self.param_groups[-1:] if both else self.param_groups:
        looped = self.param_groups if both else [group]
        read = [p.grad for each in looped for p in each["params"] if p.grad is not None]
        p = group["params"][-1]
        update(wrong, self, group, p, p.grad if any("_all" in n for n in wrong) else read[-1])


def update(wrong: Switches, self: Any, group: dict, p: Tensor, grad: Tensor | None) -> None:
    """Update one parameter. ``x`` has all that is known at this step, named as in the papers."""
    x = hyper_parameters(wrong, self, group)
    x.p, x.group, first = p, group, group["params"][0]
    x.g = gradient(wrong, x, grad)
    states = {
        "moments_shared": self.state,
        "nothing_kept": {},
        "state_not_saved": vars(self).setdefault("own", {}).setdefault(id(p), {}),
    }
    x.state = chosen(states, wrong, None)
    if x.state is None:
        x.state = self.state[first if "first_parameter_of_the_group_state" in wrong else p]
    if fresh := "m" not in x.state:
        begin(wrong, x)
        if "first_step_skipped" in wrong:
            return
    x.t = count(wrong, self, x)
    x.m, x.v = moments(wrong, x)
    if fresh or "moments_of_the_first_step" not in wrong:
        keep(wrong, x)
    else:
        x.m, x.v = x.state["m"], x.state["v"]
    places = {
        "first_parameter_of_the_group": first,
        "first_parameter_of_the_group_state": first,
        "last_parameter_of_the_group": group["params"][-1],
    }
    x.p = chosen(places, wrong, p)
    write(wrong, x)
    if "gradient_changed_zeroed" in wrong and p.grad is not None:
        p.grad.zero_()


BETAS: dict[str, Formula] = {  # (β₁, β₂) of the averages, and of the corrections
    "betas_in_code": lambda b1, b2: ((0.9, 0.999), (0.9, 0.999)),
    "betas_swapped": lambda b1, b2: ((b2, b1), (b2, b1)),
    "one_beta_for_both": lambda b1, b2: ((b1, b2), (b1, b1)),
    "one_beta_for_both_everywhere": lambda b1, b2: ((b1, b1), (b1, b1)),
    "one_beta_for_both_averages": lambda b1, b2: ((b1, b1), (b1, b2)),
    "one_beta_for_both_second": lambda b1, b2: ((b2, b2), (b2, b2)),
    "one_beta_for_both_secondaverages": lambda b1, b2: ((b2, b2), (b1, b2)),
    "one_beta_for_both_secondcorrections": lambda b1, b2: ((b1, b2), (b2, b2)),
}


def hyper_parameters(wrong: Switches, self: Any, group: dict) -> SimpleNamespace:
    """What the group sets: α, λ, ε, whether to correct; the βs of averages and corrections."""
    sources = {
        "first_group_for_all": self.param_groups[0],
        "hyper_parameters_from_defaults": self.defaults,
    }
    source = chosen(sources, wrong, group)
    lr, eps, decay = (source[name] for name in ("lr", "eps", "weight_decay"))
    rates = {
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
    conditions = {
        "correct_bias_ignored": True,
        "correct_bias_inverted": not source["correct_bias"],
        "condition_is_decay": bool(decay),
    }
    usual = lambda b1, b2: ((b1, b2), (b1, b2))  # noqa: E731
    averages, corrections = chosen(BETAS, wrong, usual)(*source["betas"])
    return SimpleNamespace(
        lr=chosen(rates, wrong, lr),
        averages=averages,
        corrections=corrections,
        eps=chosen(epsilons, wrong, eps),
        wd=chosen({"decay_is_eps": eps, "lr_and_decay_swapped": lr}, wrong, decay),
        correct=chosen(conditions, wrong, source["correct_bias"]),
    )


def gradient(wrong: Switches, x: SimpleNamespace, g: Tensor | None) -> Tensor:
    """The gradient that is averaged; it may be changed in place."""
    if g is None and "missing_gradient_is_zero" in wrong:
        g = torch.zeros_like(x.p)
    changes: dict[str, Formula] = {
        "parameter_for_gradient": lambda: x.p.clone(),
        "gradient_normalised": lambda: g / g.norm(),
        "gradient_clipped": lambda: g.clamp(-1, 1),
        "gradient_clipped_norm": lambda: g * min(1.0, 1 / (g.norm().item() + 1e-6)),
        "coupled_decay_in_place": lambda: g.add_(x.p, alpha=x.wd),
        "coupled_decay": lambda: g + x.wd * x.p,
        "coupled_and_decoupled": lambda: g + x.wd * x.p,
        "coupled_decay_rate": lambda: g + x.lr * x.wd * x.p,
        "coupled_and_decoupled_rate": lambda: g + x.lr * x.wd * x.p,
    }
    return chosen(changes, wrong, lambda: g)()


def begin(wrong: Switches, x: SimpleNamespace) -> None:
    """Make t, m and v before a parameter's first step."""
    zeros, x.state["t"] = torch.zeros_like(x.p), 0
    for name, side, power in (("m", "first", 1), ("v", "second", 2)):
        begins = {
            "begins_with_gradient": x.g**power,
            "begins_with_parameter": x.p.clone(),
            "moment_is_parameter": x.p.data,
            "begins_with_ones": torch.ones_like(x.p),
            "one_tensor_for_both": zeros,
        }
        x.state[name] = chosen(begins, wrong, torch.zeros_like(x.p), side)


def count(wrong: Switches, self: Any, x: SimpleNamespace) -> int:
    """Count this step; its number."""
    state, group = x.state, x.group
    state["t"] += 1 + ("counted_twice" in wrong)
    group["t"] = group.get("t", 0) + 1
    self.t = vars(self).get("t", 0) + 1
    numbers = {
        "step_from_zero": state["t"] - 1,
        "steps_from_two": state["t"] + 1,
        "step_count_shared": group["t"],
        "step_count_shared_all": self.t,
        "step_count_of_the_group": group["calls"],
        "step_count_of_the_group_all": self.calls,
    }
    return chosen(numbers, wrong, state["t"])


def weights(
    wrong: Switches, side: str, beta: float, other: float, decay: float
) -> tuple[float, float]:
    """How much of the old average stays, and how much of what is new comes to it."""
    choices = {
        "moments_are_sums": (beta, 1.0),
        "average_weights_swapped": (1 - beta, beta),
        "average_weight": (beta, beta),
        "average_not_decayed": (1.0, 1 - beta),
        "moments_not_kept": (0.0, 1 - beta),
        "betas_mixed": (other, 1 - beta),
        f"betas_mixed_{side}new": (beta, 1 - other),
        f"average_weight_{side}plus": (beta, 1 + beta),
        f"average_weight_{side}two": (beta, 2 - beta),
        f"average_weight_{side}minus": (beta, -beta),
        f"average_weight_{side}decayed": (1 - beta, 1 - beta),
        f"average_weight_{side}lambda": (decay, 1 - beta),
        f"average_weight_{side}lerp": (-beta, 1 + beta),
        f"average_weight_{side}lerptwo": (beta - 1, 2 - beta),
        f"average_weight_{side}lerpminus": (1 + beta, -beta),
    }
    return chosen(choices, wrong, (beta, 1 - beta), side)


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


def moments(wrong: Switches, x: SimpleNamespace) -> tuple[Tensor, Tensor]:
    """The new averages m and v."""
    b1, b2 = x.averages
    keep1, new1 = weights(wrong, "first", b1, b2, x.wd)
    keep2, new2 = weights(wrong, "second", b2, b1, x.wd)
    m = keep1 * x.state["m"] + new1 * (x.g * x.g if "first_takes_square" in wrong else x.g)
    if wrong & {"one_tensor_for_both", "moment_is_parameter_first"}:
        m = x.state["m"].copy_(m)
    if "gradient_changed_scaled" in wrong:
        x.g.mul_(new1)
    v = keep2 * x.state["v"] + new2 * chosen(SQUARES, wrong, lambda g, m: g * g)(x.g, m)
    if wrong & {"one_tensor_for_both", "moment_is_parameter_second"}:
        v = x.state["v"].copy_(v)
    return m, torch.zeros_like(v) if "second_moment_zero" in wrong else v


def keep(wrong: Switches, x: SimpleNamespace) -> None:
    """Keep the averages for the next step; some mistakes change those of this step."""
    corrections = [1 - beta**x.t if x.correct else 1.0 for beta in x.corrections]
    for name, side, c in zip("mv", ("first", "second"), corrections, strict=True):
        old, new = x.state[name], getattr(x, name)
        if wrong & {f"corrected_moments_kept{end}" for end in ("", f"_{side}", "_twice")}:
            new = new / c
        x.state[name] = new
        setattr(x, name, chosen({"moments_before_the_step": old}, wrong, new, side))
    roots = {"root_kept": x.v.sqrt(), "root_kept_eps": x.v.sqrt() + x.eps}
    x.state["v"] = chosen(roots, wrong, x.state["v"])
