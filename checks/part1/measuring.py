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


def dropout_facts(
    model: nn.Module, call: Callable[[], Tensor], last: nn.Dropout | None = None
) -> Iterator[str]:
    """In which mode dropout acts; whether it does so at the very end, as only ``last`` should."""
    model.eval()
    plain = call()
    with FixedDropout():
        evaluated = call()
        model.train()
        trained = call()
    dropped = (trained == 0) & (evaluated != 0)
    columns = dropped.flatten(0, -2).any(0)  # (D,)
    if not same(plain, evaluated):
        if same(call(), call()):  # the model is in training mode
            yield Cause("in evaluation mode dropout acts, and in training mode it does not")
        else:
            yield Cause("in evaluation mode dropout acts, too" + OWN_DROPOUT)
    elif same(trained, evaluated):
        yield Cause("in training mode the result is that of evaluation mode: no dropout acts")
    elif last is None and columns.any() and not trained[..., columns].any():
        yield Cause("in training mode numbers of the result are 0: dropout acts at the very end")
    elif last is not None and not dropped.any():
        yield Cause("in training mode no number of the result is 0: dropout is not the last step")
    elif last is not None:
        yield from scale_facts(trained, evaluated * ~dropped, last.p)


def scale_facts(trained: Tensor, kept: Tensor, p: float) -> Iterator[str]:
    """Whether dropout has scaled what it has kept as it should, and has changed nothing else."""
    if not kept.any():
        return
    factor = ((trained * kept).sum() / kept.square().sum()).item()
    if not same(trained, factor * kept):
        yield "in training mode the numbers that are not 0 are others, not only scaled up"
    elif abs(factor * (1 - p) - 1) > 1e-6:
        yield (
            f"in training mode the numbers that dropout keeps are multiplied by {factor:.4g}; with "
            f"a probability of {p:g} that is {1 / (1 - p):.4g} (once is enough)"
        )
