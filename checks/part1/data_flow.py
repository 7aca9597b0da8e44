"""What a student's function calls, and where the tensors that it passes on come from.

The origin of a tensor is found by its numbers: one that is known, a function of it, or a sum of a
few. It does not know how any task is solved: which origin is expected is the caller's business.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from checks.part1.measuring import Cause, same

UNKNOWN = "something else"
MOST_TERMS = 4  # of a sum that is recognised
MOST_DEVIATIONS = 3
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "GELU of ": F.gelu,
    "GELU by tanh of ": lambda x: F.gelu(x, approximate="tanh"),
    "ReLU of ": F.relu,
    "tanh of ": torch.tanh,
    "the sigmoid of ": torch.sigmoid,
    "a softmax of ": lambda x: x.softmax(-1),
    "a log_softmax of ": lambda x: x.log_softmax(-1),
    "a normalisation, without weight and bias, of ": lambda x: F.layer_norm(x, x.shape[-1:]),
    "a division by its norm of ": lambda x: F.normalize(x, dim=-1),
}


@dataclass(frozen=True)
class Call:
    """One call: what was called, and the origin of each argument by the parameter's name."""

    called: str
    origins: Mapping[str, str]


@dataclass(frozen=True)
class Flow:
    """What each call should be given, and what should be returned, by origins.

    Args:
        calls: parameters and their origins; the result of a call is "what CALLED gave".
        returned: the origin of the result.
    """

    calls: Sequence[Call]
    returned: str


@dataclass
class Trace:
    """What a function called, with what, by names: what the calls gave is a, b, c, …"""

    known: dict[str, Any]
    parameters: Mapping[str, Sequence[str]] = field(default_factory=dict)  # of what is called
    steps: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    meanings: dict[str, str] = field(default_factory=dict)  # letter → "what … gave"

    def origin(self, value: Any) -> str:
        """Where a value comes from, the latest first; or what was made of a known one."""
        if isinstance(value, Tensor) and not value.any():
            return "0"
        known = list(self.known.items())[::-1]
        tensors = [
            (name, x) for name, x in known if isinstance(x, Tensor) and x.dtype.is_floating_point
        ]
        pairs = itertools.combinations(tensors[::-1], 2)
        sums = [(f"({n} + {m})", x + y) for (n, x), (m, y) in pairs if x.shape == y.shape]
        made = (
            (f"{text}{name}", f(x)) for text, f in FUNCTIONS.items() for name, x in tensors + sums
        )
        for name, other in (*known, *made):
            if value is other or same(value, other):
                return name
        return sum_of(value, tensors[::-1]) or product_of(value, tensors[::-1]) or UNKNOWN

    def noting(self, called: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function whose calls are noted."""

        def noted(*args: Any, **named: Any) -> Any:
            names = [*self.parameters.get(called, ()), *map(str, range(len(args)))]
            origins = {name: self.origin(value) for name, value in zip(names, args, strict=False)}
            keywords = {name: self.origin(value) for name, value in named.items()}
            texts = [*origins.values(), *(f"{name}={text}" for name, text in keywords.items())]
            letter = chr(ord("a") + len(self.steps))
            self.steps.append(f"{letter} = {called}({', '.join(texts)})")
            meant = {name: self.meaning(text) for name, text in (origins | keywords).items()}
            self.calls.append(Call(called, meant))
            times = sum(call.called == called for call in self.calls)
            self.meanings[letter] = result_of(called, times)
            result = function(*args, **named)
            # a copy: the student may change the result in place
            kept = result.detach().clone() if isinstance(result, Tensor) else result
            self.known[letter] = kept
            return result

        return noted

    def note(self, modules: Mapping[str, nn.Module]) -> None:
        """Note the calls of modules, also those of module.forward, which no hook sees."""
        for name, module in modules.items():
            module.forward = self.noting(name, module.forward)

    def meaning(self, origin: str) -> str:
        """An origin with what was called in place of letters."""
        return re.sub(r"\b[a-z]\b", lambda letter: self.meanings.get(letter[0], letter[0]), origin)

    def report(self, result: Any, flow: Flow, always: bool = False) -> Iterator[str]:
        """What deviates from the calls as they should be, and then, or always, all calls."""
        returned = self.origin(result)
        calls = "; ".join(self.steps) or "nothing"
        deviations = list(deviations_of(self.calls, self.meaning(returned), flow))
        clear = [text for text in deviations if UNKNOWN not in text]
        if clear:
            yield Cause("; ".join(clear[:MOST_DEVIATIONS]))
        if clear or always:
            yield f"what was called: {calls}; returned: {returned}"


def result_of(called: str, times: int) -> str:
    """What a call's result is called: that of the first or of a further one."""
    return f"what {called}{'' if times == 1 else f' (call {times})'} gave"


def deviations_of(calls: Sequence[Call], returned: str, flow: Flow) -> Iterator[str]:
    """Where calls, and what is returned, are not as they should be, a clause each.

    A call that is not made may have been replaced by something equal: that is no deviation.
    """
    numbers: dict[str, int] = {}
    for call in flow.calls:
        numbers[call.called] = times = numbers.get(call.called, 0) + 1
        made = [other for other in calls if other.called == call.called]
        if len(made) < times:
            continue
        place = call.called if times == 1 else f"{call.called} (call {times})"
        for name, expected in call.origins.items():
            got = made[times - 1].origins.get(name, expected)
            if got != expected:
                yield f"{place} is given {got} instead of {expected}"
    for called in dict.fromkeys(call.called for call in calls):
        times = sum(call.called == called for call in calls)
        given = [text for call in calls if call.called == called for text in call.origins.values()]
        # of something unknown, as of one token after the other, that may be right
        if times > numbers.get(called, 0) and UNKNOWN not in given:
            more = f"{times} times" if times > 1 else "here"
            yield f"{called} is called {more} instead of {numbers.get(called, 0) or 'not at all'}"
    if returned != flow.returned:
        yield f"what is returned is {returned} instead of {flow.returned}"


def sum_of(value: Any, tensors: Sequence[tuple[str, Tensor]]) -> str:
    """A few known tensors, each times a number, of which a value is the sum; "" if of none."""
    if not isinstance(value, Tensor) or not value.dtype.is_floating_point:
        return ""
    basis: list[tuple[str, Tensor]] = []
    for name, tensor in tensors:
        if tensor.shape == value.shape and not any(same(tensor, other) for _, other in basis):
            basis.append((name, tensor))
    if not basis:
        return ""
    columns = torch.stack([tensor.detach().flatten() for _, tensor in basis], -1).double()
    flat = value.detach().double().flatten()
    factors = torch.linalg.lstsq(columns, flat[:, None], driver="gelsd").solution[:, 0]
    used = [
        (c, name) for c, (name, _) in zip(factors.tolist(), basis, strict=True) if abs(c) > 1e-7
    ]
    if len(used) > MOST_TERMS or not same(columns @ factors, flat):
        return ""
    ones = {1.0: "", -1.0: "−"}
    terms = [
        f"{ones[round(c)]}{name}"
        if abs(c - round(c)) < 1e-7 and round(c) in ones
        else f"{c:.4g} · {name}"
        for c, name in used
    ]
    return " + ".join(terms)


def product_of(value: Any, tensors: Sequence[tuple[str, Tensor]]) -> str:
    """Two or three known tensors of which a value is the product; "" if of none."""
    if not isinstance(value, Tensor):
        return ""
    for count in (2, 3):
        for factors in itertools.combinations(tensors, count):
            fit = all(tensor.shape == value.shape for _, tensor in factors)
            if fit and same(value, math.prod(tensor for _, tensor in factors)):
                return " · ".join(name for name, _ in factors)
    return ""
