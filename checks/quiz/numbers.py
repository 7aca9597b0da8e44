"""Questions about the optimizer: a parameter, or what its state holds, after two steps."""

from __future__ import annotations

import random
from typing import Any

from torch import Tensor

from checks.errors import attempt
from checks.quiz import calls
from checks.quiz.functions import Function
from checks.quiz.questions import Pool, pool_of_values

MOST_SETTINGS, MOST_EDITS = 40, 30
PARAMETER = "the parameter"


def draw_settings(rng: random.Random) -> dict[str, Any]:
    """Hyper-parameters and two gradients with which one can compute in one's head."""
    return {
        "gradients": (rng.choice([1, 2, 4, -2]), rng.choice([0, 1, 2, 4, -4])),
        "lr": rng.choice([0.1, 0.5, 1.0]),
        "betas": (rng.choice([0.0, 0.5]), rng.choice([0.0, 0.5, 0.75])),
        "eps": rng.choice([0.0, 1.0]),
        "weight_decay": rng.choice([0.0, 0.0, 0.1]),
        "correct_bias": rng.choice([True, False]),
    }


def numbers_after(settings: dict[str, Any]) -> dict[str, float]:
    """The parameter and the numbers of its state, by name, that are simple."""
    parameter, state = calls.parameter_after(**settings)
    values = {PARAMETER: parameter}
    values |= {f"`state[{name!r}]` of the parameter": value for name, value in state.items()}
    numbers = {}
    for name, value in values.items():
        if isinstance(value, Tensor) and value.numel() == 1 and is_simple(value.item()):
            numbers[name] = round(value.item(), 3) + 0.0
    return numbers


def is_simple(number: float) -> bool:
    """Whether it has at most three decimals."""
    return abs(number) < 100 and abs(number * 1000 - round(number * 1000)) < 1e-6


def steps(function: Function, rng: random.Random) -> Pool | None:
    """A number after two steps, next to what one step and edits of the function give."""
    if function.has_helpers:
        return None  # the sheet does not show what they compute
    for _ in range(MOST_SETTINGS):
        settings = draw_settings(rng)
        after = attempt(numbers_after, settings)
        others = attempt(numbers_after, {**settings, "gradients": (8, -8)})
        if not isinstance(after, dict) or not isinstance(others, dict):
            continue
        # what gradients do not change only counts steps
        after = {name: number for name, number in after.items() if number != others.get(name)}
        if not after:
            continue
        name = rng.choice([PARAMETER if PARAMETER in after else max(after), *after])
        near = {number: f"{other} holds it" for other, number in after.items()}
        one_step = numbers_after({**settings, "gradients": settings["gradients"][:1]})
        near |= {one_step[name]: "so it is after one step"} if name in one_step else {}
        for edit in function.draw_edits(rng)[:MOST_EDITS]:
            with function.edited(edit):
                edited = attempt(numbers_after, settings)
            if isinstance(edited, dict) and name in edited:
                near.setdefault(edited[name], f"what comes out if {edit}")
        text, why = in_words(function, settings, name), why_of(name, after)
        numbers = {f"{number:g}": source for number, source in near.items()}
        pool = pool_of_values(text, f"{after[name]:g}", numbers, why)
        if pool.is_enough:
            return pool
    return None


def in_words(function: Function, settings: dict[str, Any], name: str) -> str:
    """The question."""
    first, second = settings["gradients"]
    named = ", ".join(f"{k}={v!r}" for k, v in settings.items() if k != "gradients")
    return (
        f"A parameter is 1. `{function.task.function}` is called twice, with {named}; the gradient "
        f"is {first} in the first step, {second} in the second. What is {name} then?"
    )


def why_of(name: str, after: dict[str, float]) -> str:
    """What the two steps gave."""
    others = "; ".join(f"{other}: {number:g}" for other, number in after.items() if other != name)
    return f"After two steps, {name} is {after[name]:g}{f' ({others})' if others else ''}."
