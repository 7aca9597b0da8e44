"""What a wrong optimizer does, in words and numbers, where it is none of the known mistakes.

Each probe measures one property that every AdamW has on a parameter of one number, and says
something only if it is not as it should be. It does not know how AdamW is computed.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
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


def moved(opt_class: type, gradient: float, **settings: Any) -> float:
    """How far the first step goes against the gradient's sign, in learning rates."""
    (value,) = walk(*make(opt_class, **settings), [gradient])
    return (START - value if gradient > 0 else value - START) / LR


def same(first: Any, second: Any) -> bool:
    """Equal but for rounding and an ε of 1e-6; NaN is equal to nothing."""
    first, second = (torch.as_tensor(x, dtype=torch.float64) for x in (first, second))
    return bool(((first - second).abs() < 1e-3 * LR).all())


# ---------------------------------------------------------------------------------------------
# Probes: each gives a sentence, or nothing where all is well


def first_step(opt_class: type) -> Iterator[str]:
    """With bias correction the first step is the learning rate, against the gradient."""
    distance = moved(opt_class, 1.0)
    if not same(distance, 1.0):
        way = "along" if distance < 0 else "against"
        yield (
            f"the first step, on a gradient of 1, moves a parameter by {abs(distance):.4g} · lr "
            f"{way} the gradient; with bias correction it is 1 · lr against it"
        )


def first_step_uncorrected(opt_class: type) -> Iterator[str]:
    """Without bias correction it is 0.1 / √0.001 learning rates."""
    corrected = moved(opt_class, 1.0)  # who fails here, too, fails for another reason
    try:
        distance = moved(opt_class, 1.0, correct_bias=False)
    except Exception as error:
        yield f"with correct_bias=False step() fails ({type(error).__name__})"
        return
    # Where nothing changes, the group's settings are not read, which is probed below.
    if not same(distance, corrected) and not same(distance / 10**0.5, 1.0):
        yield (
            f"with correct_bias=False the first step, on a gradient of 1, is {distance:.4g} · lr; "
            "wanted 3.162 · lr"
        )


def ignores_correct_bias(opt_class: type) -> bool:
    """Whether the first step is corrected with and without; False where step() fails."""
    try:
        with_it, without = (moved(opt_class, 1.0, correct_bias=flag) for flag in (True, False))
    except Exception:
        return False
    corrected = 0.1 < abs(with_it) < 3  # not 0, nor the 3.162 of moments that are not corrected
    return corrected and same(with_it, without)


def later_steps(opt_class: type) -> Iterator[str]:
    """On one and the same gradient every corrected step is the learning rate."""
    values = walk(*make(opt_class), [1.0] * 10)
    last = (values[-2] - values[-1]) / LR
    if not same(last, 1.0):
        yield f"the tenth step on a gradient of 1 is {last:.4g} · lr; with bias correction 1 · lr"


def epsilon(opt_class: type) -> Iterator[str]:
    """With eps=1 it is √0.001 / (√0.001 + 1) learning rates: ε is added to the plain root."""
    distance, expected = moved(opt_class, 1.0, eps=1.0), 0.001**0.5 / (0.001**0.5 + 1)
    # In a wrong step ε would show nothing.
    if not same(distance, expected) and same(moved(opt_class, 1.0), 1.0):
        yield (
            f"with eps=1 the first step, on a gradient of 1, is {distance:.4g} · lr; "
            f"wanted {expected:.4g} · lr (ε is added to √v itself)"
        )


def size_of_gradients(opt_class: type) -> Iterator[str]:
    """Adam's first step is as long for a large gradient, and for one of either sign."""
    small, large, other = (moved(opt_class, gradient) for gradient in (1.0, 100.0, -1.0))
    if not same(small, other):
        yield f"a gradient of 1 moves a parameter by {small:.4g} · lr, one of −1 by {other:.4g}"
    elif not abs(large / small - 1) < 0.01:
        yield (
            f"a gradient of 100 moves a parameter {large / small:.4g} times as far as one of 1; "
            "Adam's first step is as long for both"
        )


def decay(opt_class: type) -> Iterator[str]:
    """Without a gradient to follow, decay alone multiplies by 1 − lr·λ."""
    (value,) = walk(*make(opt_class, weight_decay=0.5), [0.0])
    if not same(value / START, 1 - LR * 0.5):
        yield (
            f"with a gradient of 0, lr {LR} and weight decay 0.5 a parameter of {START:g} is "
            f"multiplied by {value / START:.4g}; decoupled decay multiplies it by 1 − lr·λ = 0.95"
        )


def decay_with_gradients(opt_class: type) -> Iterator[str]:
    """What decay takes off does not depend on the gradient."""
    taken = []
    for gradient in (1.0, 100.0):
        with_decay = walk(*make(opt_class, weight_decay=0.5), [gradient])
        taken.append(walk(*make(opt_class), [gradient])[0] - with_decay[0])
    if not same(*taken):
        yield "how much weight decay takes off depends on the gradient"


def memory(opt_class: type) -> Iterator[str]:
    """After a gradient, a step on a gradient of 0 still moves: that is the first moment."""
    if same(*walk(*make(opt_class), [1.0, 0.0])):
        yield (
            "after a step on a gradient of 1, one on a gradient of 0 moves nothing; a running "
            "average would remember the first"
        )


def neighbours(opt_class: type) -> Iterator[str]:
    """A parameter moves as it would if it were alone."""
    if not same(walk_of_two(opt_class, 0, -3.0), walk(*make(opt_class))):
        yield "a parameter moves otherwise when there is another one: something is shared"


def walk_of_two(opt_class: type, index: int, gradient: float | None) -> list[float]:
    """The walk of one of two parameters; the other one has always the same gradient, or none."""
    parameters = [make(opt_class)[0] for _ in range(2)]
    optimizer = opt_class(parameters, lr=LR, weight_decay=0.0)
    if gradient is not None:
        parameters[1 - index].grad = torch.full_like(parameters[index], gradient)
    return walk(parameters[index], optimizer)


def missing_gradient(opt_class: type) -> Iterator[str]:
    """A step without a gradient leaves the parameter, and its later steps, alone."""
    without = walk(*make(opt_class), GRADIENTS[:3])
    first, missing, *rest = walk(*make(opt_class), [GRADIENTS[0], None, *GRADIENTS[1:3]])
    if not same(first, missing):
        yield "a parameter whose grad is None moves"
    elif not same(rest, without[1:]):
        yield "a step at which grad is None changes the next ones"


def after_a_missing_gradient(opt_class: type) -> Iterator[str]:
    """A parameter moves also where one before it has no gradient."""
    if not same(walk_of_two(opt_class, 1, None), walk(*make(opt_class))):
        yield (
            "where the grad of one parameter is None, those after it do not move as they should: "
            "only that one is to be left out"
        )


def loaded_state(opt_class: type) -> Iterator[str]:
    """state_dict() holds all that the next steps need."""
    whole = walk(*make(opt_class))
    parameter, optimizer = make(opt_class)
    walk(parameter, optimizer, GRADIENTS[:2])
    saved = copy.deepcopy(optimizer.state_dict())
    parameter, optimizer = make(opt_class, start=parameter.item())
    optimizer.load_state_dict(saved)
    if not same(walk(parameter, optimizer, GRADIENTS[2:]), whole[2:]):
        yield "steps differ after state_dict() and load_state_dict() into a new optimizer"


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
            idle += [name] * same(*values)
    if idle:
        yield f"what the second group sets has no effect: {', '.join(idle)}"


PROBES = (
    first_step,
    later_steps,
    first_step_uncorrected,
    epsilon,
    size_of_gradients,
    decay,
    decay_with_gradients,
    memory,
    neighbours,
    missing_gradient,
    after_a_missing_gradient,
    loaded_state,
    settings_of_the_group,
)


def facts(opt_class: type) -> list[str]:
    """What is not as it should be, a sentence each; probes in which step() fails say nothing."""
    sentences = []
    for probe in PROBES:
        with contextlib.suppress(Exception, SystemExit):
            sentences.extend(probe(opt_class))
    return sentences
