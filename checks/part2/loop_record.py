"""Records of a training loop: what train_multitask does with models, losses and labels.

This file does not know how any loop is written.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook
from torch.overrides import TorchFunctionMode

from checks.part2.models import PREDICTIONS, function_of

HEADS = dict(zip(("sst", "para", "sts"), map(function_of, PREDICTIONS), strict=True))  # methods


class LabelWatch(TorchFunctionMode):
    """While active, notes whether labels are broadcast.

    Args:
        labels: of all rows; some have fractions.
    """

    def __init__(self, labels: Sequence[float]):
        super().__init__()
        self.labels, self.rows = torch.tensor(sorted(set(labels))), len(labels)
        self.broadcast = 0  # how many labels (B,) met as many scores (B, 1)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        for labels in filter(self.holds, args):
            scores = [x.shape for x in args if isinstance(x, Tensor) and not self.holds(x)]
            if labels.dim() == 1 and (len(labels), 1) in scores:
                self.broadcast = len(labels)
        return func(*args, **(kwargs or {}))

    def holds(self, value: Any) -> bool:
        """Whether a value is a tensor of labels, of which some have fractions."""
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return False
        if not 1 < value.numel() <= self.rows:
            return False
        flat = value.detach().flatten().float()
        near = (flat[:, None] - self.labels).abs().amin(dim=-1) < 1e-4
        return bool(near.all()) and bool((flat != flat.round()).any())


@dataclass
class TrainingRecord:
    """What a run of train_multitask did."""

    watch: LabelWatch  # of the labels of STS
    models: list[nn.Module] = field(default_factory=list)
    start: dict[str, Tensor] = field(default_factory=dict)  # parameters of all models, by name
    modes: list[bool] = field(default_factory=list)  # training or not, at each backward pass
    losses: list[float] = field(default_factory=list)  # of each backward pass
    steps: int = 0
    later: int = 0  # backward passes after the first step …
    left: int = 0  # … and those of them that find gradients of before
    called: set[str] = field(default_factory=set)  # predictions made to learn from
    stepped: list[Tensor] = field(default_factory=list)  # parameters of the latest step

    def parameters(self) -> dict[str, Tensor]:
        """The parameters as they are now."""
        return {
            f"{number}.{name}": parameter.detach()
            for number, model in enumerate(self.models)
            for name, parameter in model.named_parameters()
        }

    def note_backward(self, losses: Any) -> None:
        """A backward pass begins."""
        losses = [losses] if isinstance(losses, Tensor) else losses
        self.losses += [loss.detach().sum().item() for loss in losses]
        self.modes += [model.training for model in self.models[-1:]]
        if self.stepped:
            self.later += 1
            self.left += any(p.grad is not None and bool(p.grad.any()) for p in self.stepped)

    @property
    def finite(self) -> bool:
        """Whether all losses are numbers."""
        return all(map(math.isfinite, self.losses))

    def learnt(self) -> bool:
        """Whether any parameter has changed."""
        now = self.parameters()
        return any(not torch.equal(now[name], old) for name, old in self.start.items())


def same(first: TrainingRecord, second: TrainingRecord) -> bool:
    """Whether both ended with the same parameters."""
    ours, theirs = first.parameters(), second.parameters()
    return ours.keys() == theirs.keys() and all(torch.equal(p, theirs[k]) for k, p in ours.items())


@contextlib.contextmanager
def recorded(cls: type[nn.Module], labels: Sequence[float]) -> Iterator[TrainingRecord]:
    """While active, what a loop does with models of that class, and with labels, is noted."""
    watch = LabelWatch(labels)
    run, make, backward = TrainingRecord(watch), cls.__init__, torch.autograd.backward

    def noting(name: str) -> Callable:
        predict = getattr(cls, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            if torch.is_grad_enabled():
                run.called.add(name)
            return predict(*args, **kwargs)

        return call

    def noting_init(model: nn.Module, *args: Any, **kwargs: Any) -> None:
        make(model, *args, **kwargs)
        run.models.append(model)
        run.start = {name: value.clone() for name, value in run.parameters().items()}

    def noting_backward(*args: Any, **kwargs: Any) -> Any:
        run.note_backward(args[0] if args else kwargs["tensors"])
        return backward(*args, **kwargs)

    def noting_step(optimizer: Optimizer, *_: Any) -> None:
        run.steps += 1
        run.stepped = [p for group in optimizer.param_groups for p in group["params"]]

    hook = register_optimizer_step_post_hook(noting_step)
    try:
        with (
            mock.patch.object(cls, "__init__", noting_init),
            mock.patch.object(torch.autograd, "backward", noting_backward),
            mock.patch.multiple(cls, **{name: noting(name) for name in HEADS.values()}),
            watch,
        ):
            yield run
    finally:
        hook.remove()
