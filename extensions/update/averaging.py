"""Averages of the weights along a run, to evaluate and keep instead of the last ones.

    EMA   θ̄ ← d θ̄ + (1 − d) θ        exponential moving average, d = .99 … .999
    SWA   θ̄ ← (n θ̄ + θ) / (n + 1)    stochastic weights (Izmailov et al. 2018, algorithm 1)

In both the first update copies θ, so that the starting point does not count. SWA takes a point at
the end of each epoch, say, from the middle of the run on, and the learning rate must not fall to 0
before the last, or all points are one. LayerNorm has no batch statistics to compute again.

What to try: d so that 1 / (1 − d) steps are a fraction of an epoch. A short run ends before an
average over 1000 steps has got going: ``warm_up`` then takes d = (1 + n) / (10 + n) while that is
less. A step costs one pass over the weights; memory one more copy of them. In the loop:

    optimizer.step()
    average.update(model)  # average = Average(model, decay=0.999)
    …
    with average.inside(model):
        scores = evaluate(model, dev)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Average:
    """A running average of all parameters of a model that learn.

    Args:
        model: whose.
        decay: d of EMA, 0 for the last weights; None for SWA's equal average.
        warm_up: begin EMA with a smaller d.
    """

    def __init__(self, model: nn.Module, decay: float | None, warm_up: bool = False):
        if decay is not None and not 0 <= decay < 1:
            raise ValueError(f"decay is {decay}, it must be at least 0 and below 1")
        self.decay, self.warm_up = decay, warm_up
        self.count = 0
        self.values = {name: p.detach().clone() for name, p in _learning(model)}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Take the present weights in; call it after optimizer.step()."""
        weight = self._newest_weight()
        for name, parameter in _learning(model):
            self.values[name].lerp_(parameter, weight)
        self.count += 1

    def _newest_weight(self) -> float:
        """The weight of the newest one."""
        if self.decay is None or self.count == 0:
            return 1 / (self.count + 1)
        rising = (1 + self.count) / (10 + self.count)
        return 1 - (min(self.decay, rising) if self.warm_up else self.decay)

    @contextmanager
    def inside(self, model: nn.Module) -> Iterator[None]:
        """``with average.inside(model):`` evaluate, save; the model's own weights come back."""
        own = {name: p.detach().clone() for name, p in _learning(model)}
        _load(model, self.values)
        try:
            yield
        finally:
            _load(model, own)

    def state_dict(self) -> dict:
        """What a resumed run needs."""
        return {"count": self.count, "values": self.values}

    def load_state_dict(self, state: dict) -> None:
        """Continue from there."""
        if state["values"].keys() != self.values.keys():
            raise ValueError("this average is of another model")
        self.count = state["count"]
        for name, value in self.values.items():
            value.copy_(state["values"][name])


def _learning(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    return ((name, p) for name, p in model.named_parameters() if p.requires_grad)


@torch.no_grad()
def _load(model: nn.Module, values: dict[str, Tensor]) -> None:
    for name, parameter in _learning(model):
        parameter.copy_(values[name])
