"""What a wrong optimizer does, in words and numbers, where it is none of the known mistakes.

Properties that every AdamW has are measured on a parameter of one number; something is said only of
those that are not as they should be. It does not know how AdamW is computed.
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

LR = 0.1
START = 4.0
GRADIENTS = (1.0, -0.5, 0.25, 2.0)
CHANGED = {  # hyper-parameters of a group that are not the defaults
    "lr": 0.2,
    "betas": (0.5, 0.9),
    "eps": 1.0,
    "weight_decay": 0.5,
    "correct_bias": False,
}


def make(opt_class: type, start: float = START, **settings: Any):
    """A parameter (1,) in float64 and its optimizer."""
    parameter = torch.nn.Parameter(torch.tensor([start], dtype=torch.float64))
    return parameter, opt_class([parameter], **{"lr": LR, "weight_decay": 0.0} | settings)


def walk(
    parameter: torch.nn.Parameter, optimizer: Any, gradients: Sequence[float | None] = GRADIENTS
) -> list[float]:
    """Take a step on each gradient, whatever the parameter is; its values after each."""
    values = []
    for gradient in gradients:
        parameter.grad = None if gradient is None else torch.full_like(parameter, gradient)
        optimizer.step()
        values.append(parameter.item())
    return values


def first_step(opt_class: type, gradient: float, **settings: Any) -> float:
    """How much the first step takes off a parameter."""
    return START - walk(*make(opt_class, **settings), [gradient])[0]


def same(first: Any, second: Any) -> bool:
    """Equal but for rounding and an ε of 1e-6; NaN is equal to nothing."""
    first, second = (torch.as_tensor(x, dtype=torch.float64) for x in (first, second))
    return bool(((first - second).abs() < 1e-3 * LR).all())


def eps_counts(opt_class: type) -> bool:
    """Whether another ε makes another step."""
    return not same(*(first_step(opt_class, 1.0, eps=eps) for eps in (1e-6, 1.0)))


# ---------------------------------------------------------------------------------------------
# Two ways of walking that end at the same places


def walk_of_two(opt_class: type, index: int, gradient: float | None) -> list[float]:
    """The walk of one of two parameters; the other one has always the same gradient, or none."""
    parameters = [make(opt_class)[0] for _ in range(2)]
    optimizer = opt_class(parameters, lr=LR, weight_decay=0.0)
    if gradient is not None:
        parameters[1 - index].grad = torch.full_like(parameters[index], gradient)
    return walk(parameters[index], optimizer)


def walk_over_a_save(opt_class: type) -> list[float]:
    """The end of a walk, after the state was loaded into a new optimizer."""
    parameter, optimizer = make(opt_class)
    walk(parameter, optimizer, GRADIENTS[:2])
    saved = copy.deepcopy(optimizer.state_dict())
    parameter, optimizer = make(opt_class, start=parameter.item())
    optimizer.load_state_dict(saved)
    return walk(parameter, optimizer, GRADIENTS[2:])


def bounds_steps(opt_class: type) -> bool:
    """Whether large gradients make other steps than small ones in the same ratio."""
    walks = [
        walk(*make(opt_class, eps=1e-12), [scale * gradient for gradient in GRADIENTS])
        for scale in (0.01, 0.1, 1000.0)
    ]
    return same(walks[0], walks[1]) and not same(walks[1], walks[2])


def walk_with_a_pause(opt_class: type) -> tuple[list[float], list[float]]:
    """A walk in whose second step there is no gradient, and what it should be."""
    first, *rest = walk(*make(opt_class))
    paused = walk(*make(opt_class), [GRADIENTS[0], None, *GRADIENTS[1:]])
    return paused, [first, first, *rest]


ALIKE: dict[str, Callable[[type], tuple[Any, Any]]] = {  # what is said if the two are not the same
    "large gradients make other steps than small ones: does something bound them, a clamp or "
    "clipping? AdamW has none; gradients are clipped in the training loop": lambda opt_class: (
        float(bounds_steps(opt_class)),
        0.0,
    ),
    "a gradient of −1 moves a parameter otherwise than back by what one of 1 moves it": (
        lambda opt_class: (first_step(opt_class, -1.0), -first_step(opt_class, 1.0))
    ),
    "a parameter's update changes when the model has a second one: they share state": (
        lambda opt_class: (walk_of_two(opt_class, 0, -3.0), walk(*make(opt_class)))
    ),
    "a step at which grad is None moves a parameter, or changes the next steps": walk_with_a_pause,
    "where the grad of one parameter is None, those after it do not move as they should: only that "
    "one is to be left out": lambda opt_class: (
        walk_of_two(opt_class, 1, None),
        walk(*make(opt_class)),
    ),
    "steps differ after state_dict() and load_state_dict() into a new optimizer": (
        lambda opt_class: (walk_over_a_save(opt_class), walk(*make(opt_class))[2:])
    ),
}


def settings_of_the_group(opt_class: type) -> Iterator[str]:
    """Each hyper-parameter is read from the group that the parameter is in."""
    idle = []
    for name, value in CHANGED.items():
        with contextlib.suppress(Exception):
            values = []
            for settings in ({}, {name: value}):
                first, second = make(opt_class)[0], make(opt_class)[0]
                groups = [{"params": [first]}, {"params": [second], **settings}]
                values.append(walk(second, opt_class(groups, lr=LR, weight_decay=0.0)))
            moves = [[place - START for place in places] for places in values]  # maybe tiny ones
            near = (
                math.isclose(*pair, rel_tol=1e-4, abs_tol=1e-15)
                for pair in zip(*moves, strict=True)
            )
            idle += [name] * (any(moves[0]) and all(near))
    if idle:
        yield f"what the second group sets has no effect: {', '.join(idle)}"


def facts(opt_class: type) -> list[str]:
    """What is not as it should be, a sentence each; where step() always fails, nothing."""
    sentences: list[str] = []
    with contextlib.suppress(Exception, SystemExit):
        walk(*make(opt_class))
        for sentence, walks in ALIKE.items():
            with contextlib.suppress(Exception):
                if not same(*walks(opt_class)):
                    sentences.append(sentence)
        sentences += settings_of_the_group(opt_class)
    return sentences
