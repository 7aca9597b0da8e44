"""What the probes of bert.py share: sameness, effects of modules, norms, dropout.

A probe hands the student's function inputs for which one property of the answer can be seen in the
result, and puts what it sees into words. It says nothing where that property is as it should be, or
cannot be seen because something else is wrong. It does not know how any task is solved.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from checks.fixed_dropout import FixedDropout

# A probe gets the student's tiny model, stored inputs of the task and its right results by name.
Probe = Callable[[nn.Module, SimpleNamespace, Mapping[str, Tensor]], Iterable[str]]
COUNTED = "(counted from 0)"
OWN_DROPOUT = (
    ": F.dropout without training=self.training does not know of model.eval(), nor does a layer "
    "that is made on the spot; the nn.Dropout that is part of the model does"
)


class Cause(str):
    """What a probe says, where that is the cause and not only a consequence."""


def same(first: Any, second: Any) -> bool:
    """Whether both are tensors and the same up to rounding."""
    if not isinstance(first, Tensor) or not isinstance(second, Tensor):
        return False
    if first.shape != second.shape:
        return False
    return torch.allclose(first.double(), second.double(), rtol=1e-6, atol=1e-8)


def matters(module: nn.Module, call: Callable[[], Tensor]) -> bool:
    """Whether a module's parameters have an effect on a result."""
    before, kept = call(), copy.deepcopy(module.state_dict())
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter))
    after = call()
    module.load_state_dict(kept)
    return not same(before, after)


def dropout_facts(model: nn.Module, call: Callable[[], Tensor]) -> Iterator[str]:
    """In which mode dropout acts."""
    model.eval()
    plain = call()
    with FixedDropout():
        evaluated = call()
        model.train()
        trained = call()
    if not same(plain, evaluated):
        if same(call(), call()):  # the model is in training mode
            yield Cause("in evaluation mode dropout acts, and in training mode it does not")
        else:
            yield Cause("in evaluation mode dropout acts, too" + OWN_DROPOUT)
    elif same(trained, evaluated):
        yield Cause("in training mode the result is that of evaluation mode: no dropout acts")
