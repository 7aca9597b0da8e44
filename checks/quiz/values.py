"""Questions about values of a function: shapes, sums, what chance changes, and AdamW's numbers."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from checks.errors import attempt
from checks.hunt.mutants import Edit
from checks.quiz import calls
from checks.quiz.functions import Function
from checks.quiz.questions import Claim, Pool, either, pool_of_values

MOST_EDITS = 12
MOST_SETTINGS, MOST_STEP_EDITS = 40, 30  # for a question about AdamW's numbers
PARAMETER = "the parameter"


def values_in(
    function: Function, sizes: calls.Sizes, seed: int, edit: Edit | None = None, **setting: Any
) -> dict[str, Tensor]:
    """The tensors of two axes and more that a call computes once, by what they are of."""
    with function.watched(edit) as values:
        calls.run(function.task.id, sizes, seed, **setting)
    return {
        label: value
        for label, value in values.items()
        if isinstance(value, Tensor) and value.dim() > 1
    }


def shape(function: Function, rng: random.Random) -> Pool | None:
    """The shape of an expression or a variable, for sizes that are given."""
    sizes = calls.draw_sizes(rng)
    shapes = {k: tuple(v.shape) for k, v in values_in(function, sizes, 1).items()}
    if not shapes:
        return None
    label = rng.choice([*shapes])
    near = {str(size): f"{other} has it" for other, size in shapes.items()}
    for edit in function.draw_edits(rng)[:MOST_EDITS]:
        edited = attempt(values_in, function, sizes, 1, edit)
        if isinstance(edited, Mapping) and label in edited:
            near[str(tuple(edited[label].shape))] = f"what it would be if {edit}"
    for size in itertools.permutations(shapes[label]) if len(near) < 4 else ():
        near.setdefault(str(size), "the right axes in another order")
    text = f"{calls.given(function.task, sizes)} What is the shape of {label}?"
    why = f"Run with these sizes, {label} has the shape {shapes[label]}."
    return pool_of_values(text, str(shapes[label]), near, why)


def sums_to(axis: int | None, total: int) -> Callable[[Tensor], bool | None]:
    """Whether all sums along an axis, or that of the first sentence, are a number."""
    return lambda t: is_near(t[0].sum() if axis is None else t.sum(axis), total)


def is_near(values: Tensor, number: float) -> bool | None:
    """Whether all values are a number; None where that is not clear."""
    distances = (values - number).abs()
    if distances.max() < calls.SAME:
        return True
    return None if distances.max() < calls.OTHER else False


PROPERTIES: dict[str, Callable[[Tensor], bool | None]] = {
    "along its last axis, the numbers sum to 1": sums_to(-1, 1),
    "along its last axis but one, the numbers sum to 1": sums_to(-2, 1),
    "along its last axis, the numbers sum to 0": sums_to(-1, 0),
    "along its last axis but one, the numbers sum to 0": sums_to(-2, 0),
    "all its numbers for the first sentence together sum to 1": sums_to(None, 1),
    "the last number along its last axis is always 0": lambda t: is_near(t[..., -1], 0),
    "the last number along its last axis but one is always 0": lambda t: is_near(t[..., -1, :], 0),
}
ABOUT_NORM = {"bert.add_norm", "bert.layer", "bert.embed"}


def sums(function: Function, rng: random.Random) -> Pool | None:
    """What of a value is zero, or sums to one, for a mask that is given."""
    task, sizes = function.task.id, calls.draw_sizes(rng)
    masked = task in ("bert.attention", "bert.layer", "classifier.forward")
    padding = rng.randint(1, sizes.length - 1) if masked else 0
    runs = [values_in(function, sizes, seed, padding=padding) for seed in calls.SEEDS]
    pools = []
    for label in (label for label, value in runs[0].items() if value.is_floating_point()):
        results = {text: [test(run[label]) for run in runs] for text, test in PROPERTIES.items()}
        claims = [
            Claim(text, unanimous(holds), f"it is {'so' if all(holds) else 'not so'} in three runs")
            for text, holds in results.items()
        ]
        pools += [(label, claims)] * any(claim.holds for claim in claims)
    if not pools:
        return None
    label, claims = rng.choice(pools)
    padded = f"The last {padding} tokens of each sentence are padding. " if padding > 1 else ""
    padded = padded or "The last token of each sentence is padding. " * padding
    norm = "The weights of the layer norm are 1, its biases 0. " * (task in ABOUT_NORM)
    return Pool(
        f"{calls.given(function.task, sizes)} {padded}{norm}"
        f"In evaluation mode, what is true of {label}, whatever numbers it gets?",
        claims,
        "Run three times with random numbers, only this was true each time.",
    )


def unanimous(results: list[bool | None]) -> bool | None:
    """What all results are; None where they are not the same."""
    return results[0] if len(set(results)) == 1 else None


def chance(function: Function, rng: random.Random) -> Pool | None:
    """Which value two runs do not share, in training and in evaluation."""
    task, sizes = function.task.id, calls.draw_sizes(rng)
    pairs = [
        [values_in(function, sizes, s, training=True, noise=n) for n in (1, 2)] for s in (1, 2, 3)
    ]
    distances = {
        f"{label}, in training mode": [calls.distance(a[label], b[label]) for a, b in pairs]
        for label in pairs[0][0]
    }
    for text, setting in RESULTS.items():
        results = [
            [calls.run(task, sizes, s, noise=n, **setting) for n in (1, 2)] for s in calls.SEEDS
        ]
        distances[text] = [calls.distance(*pair) for pair in results]

    def pool(other: bool) -> Pool:
        differ = {text: calls.differ(numbers) for text, numbers in distances.items()}
        claims = [
            Claim(text, None if value is None else value is other, calls.in_words(distances[text]))
            for text, value in differ.items()
        ]
        return Pool(
            f"{calls.given(function.task, sizes)} It is called twice with the same numbers and "
            "weights, and no seed is set in between. The dropout probability is 0.5. Which of "
            f"these is {'not ' * other}the same in both calls?",
            claims,
            f"Of the four, only this one {'differed' if other else 'was the same'} in two calls.",
        )

    return either(rng, pool)


RESULTS: dict[str, dict[str, Any]] = {
    "the result, in training mode": {"training": True},
    "the result, in evaluation mode": {},
    "the result, in training mode with a dropout probability of 0": {"training": True, "rate": 0.0},
}


# ---------------------------------------------------------------------------------------------
# The optimizer


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
        for edit in function.draw_edits(rng)[:MOST_STEP_EDITS]:
            with function.edited(edit):
                edited = attempt(numbers_after, settings)
            if isinstance(edited, dict) and name in edited:
                near.setdefault(edited[name], f"what comes out if {edit}")
        text, why = question_of(function, settings, name), why_of(name, after)
        numbers = {f"{number:g}": source for number, source in near.items()}
        pool = pool_of_values(text, f"{after[name]:g}", numbers, why)
        if pool.is_enough:
            return pool
    return None


def question_of(function: Function, settings: dict[str, Any], name: str) -> str:
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
