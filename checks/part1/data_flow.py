"""What a student's function calls, and where the tensors that it passes on come from.

The origin of a tensor is recognised by its numbers: one that is known, a function of it, or a sum
of a few. It does not know how any task is solved.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from checks.fixed_dropout import FixedDropout
from checks.part1.measuring import Cause, dropout_facts, matters, same
from checks.part1.references import load_references

UNKNOWN = "something else"
MOST_TERMS = 4  # of a sum that is recognised
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "GELU of ": F.gelu,
    "GELU by tanh of ": lambda x: F.gelu(x, approximate="tanh"),
    "ReLU of ": F.relu,
    "tanh of ": torch.tanh,
    "the sigmoid of ": torch.sigmoid,
    "the softmax of ": lambda x: x.softmax(-1),
    "the log_softmax of ": lambda x: x.log_softmax(-1),
    "the normalisation, without weight and bias, of ": lambda x: F.layer_norm(x, x.shape[-1:]),
    "the division by its norm of ": lambda x: F.normalize(x, dim=-1),
}


@dataclass
class Trace:
    """What a function called, with what, by names: what the calls gave is a, b, c, …"""

    known: dict[str, Any]
    steps: list[str] = field(default_factory=list)
    formulas: dict[str, str] = field(default_factory=dict)  # letter → the call, written out
    deviations: list[Cause] = field(default_factory=list)  # arguments that do not belong there

    def origin(self, value: Any) -> str:
        """Where a value comes from, the latest first; or what was made of a known one."""
        if isinstance(value, Tensor) and not value.any():
            return "0"
        known = list(self.known.items())[::-1]
        tensors = [
            (name, x) for name, x in known if isinstance(x, Tensor) and x.dtype.is_floating_point
        ]
        pairs = [
            (n, x, m, y)
            for (n, x), (m, y) in itertools.combinations(tensors[::-1], 2)
            if x.shape == y.shape
        ]
        sums = [(f"({n} + {m})", x + y) for n, x, m, y in pairs]
        made = (
            (f"{text}{name}", f(x)) for text, f in FUNCTIONS.items() for name, x in tensors + sums
        )
        products = ((f"{n} · {m}", x * y) for n, x, m, y in pairs)
        for name, other in itertools.chain(known, made, products):
            if value is other or same(value, other):
                return name
        return sum_of(value, tensors[::-1]) or UNKNOWN

    def noting(
        self,
        called: str,
        function: Callable[..., Any],
        names: Sequence[str] = (),
        rights: Sequence[Mapping[str, Tensor]] = (),
    ) -> Callable[..., Any]:
        """A function whose calls are noted.

        Args:
            names: of its parameters.
            rights: of each call the arguments by name, of a layer its weight, as they should be.
        """
        times = itertools.count(1)

        def noted(*args: Any, **named: Any) -> Any:
            time = next(times)
            texts = [self.origin(value) for value in args]
            texts += [f"{name}={self.origin(value)}" for name, value in named.items()]
            place = called if time == 1 else f"{called} (call {time})"
            if rights and time > len(rights) and UNKNOWN not in texts:
                text = f"{called} is called {time} times instead of {len(rights)}"
                self.deviations.insert(0, Cause(text))
            for name, right in (rights[:time] or ({},))[-1].items():
                value = (dict(zip(names, args, strict=False)) | named).get(name)
                source = self.formula(self.origin(value))
                if not same(getattr(value, "weight", value), right) and UNKNOWN not in source:
                    text = f"{place} is given {source} as `{name}`, which does not belong there"
                    self.deviations.append(Cause(text))
            letter = chr(ord("a") + len(self.steps))
            self.steps.append(f"{letter} = {called}({', '.join(texts)})")
            whole = f"{called}({self.formula(texts[0])})" if len(texts) == 1 else ""
            self.formulas[letter] = whole or f"the result of {place}"
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

    def formula(self, origin: str) -> str:
        """An origin with the calls in place of their letters."""
        return re.sub(r"\b[a-z]\b", lambda letter: self.formulas.get(letter[0], letter[0]), origin)

    def report(self, result: Any, right: Tensor, asked: str) -> Iterator[str]:
        """The formula of what is returned, where that is not the right result.

        Args:
            asked: what it is not, in words.
        """
        formula = self.formula(self.origin(result))
        if not same(result, right) and formula != UNKNOWN:
            text = f"what is returned is {formula}"
            yield text if UNKNOWN in formula else Cause(f"{text}, which is not {asked}")


def formula_facts(
    model: nn.Module,
    call: Callable[[], Any],
    known: Mapping[str, Tensor],
    modules: Mapping[str, nn.Module],
    right: str,
    asked: str,
) -> Iterator[str]:
    """Which modules have no effect, when dropout acts, and the formula that a call computes.

    Args:
        known: the tensors that may be in it.
        right: the name of the right result in training mode.
        asked: what that is, in words.
    """
    for name, module in modules.items():
        if [*module.parameters()] and not matters(module, call):
            yield Cause(
                f"{name} has no effect on the result: its weight and bias are not used, or what it "
                "gives is not"
            )
    yield from dropout_facts(model, call)
    trace = Trace(dict(known))
    trace.note(modules)
    model.train()
    with FixedDropout(), torch.no_grad():
        result = call()
    yield from trace.report(result, load_references()[right], asked)


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
