"""From gradients to new weights: the tasks' gradients combined, the optimizer, rates, averages.

``Updates`` is what a training loop has of all this. Without flags it takes every task's gradient as
it comes, and the course's AdamW with one learning rate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from extensions.gradients.cagrad import cagrad
from extensions.gradients.gradvac import GradVac
from extensions.gradients.pcgrad import pcgrad
from extensions.gradients.task_gradients import TaskGradients
from extensions.loss import smart
from extensions.update import optimizers, schedules
from extensions.update.averaging import Average
from extensions.update.layer_decay import parameter_groups

OTHERS = {"adam": optimizers.Adam, "lion": optimizers.Lion, "sgd": optimizers.SGD}
UNCERTAINTY_LR = 1e-3  # BERT's would leave the weights of losses where they began


def make_optimizer(args: Any, model: nn.Module, plain: type[Optimizer]) -> Optimizer:
    """The optimizer of the flags, over groups of all parameters that learn.

    Args:
        plain: the class for --optimizer adamw.
    """
    weights = model.added.uncertainty
    own = list(weights.parameters()) if weights is not None else []
    apart = set(own)  # never iterated over: its order is that of addresses in memory
    if args.layer_decay:
        groups = parameter_groups(model, args.lr, args.layer_decay)
        for group in groups:
            group["params"] = [p for p in group["params"] if p not in apart]
    else:
        learning = [p for p in model.parameters() if p.requires_grad and p not in apart]
        groups = [{"params": learning}]
    if own:
        groups.append({"params": own, "lr": UNCERTAINTY_LR})
    return OTHERS.get(args.optimizer, plain)(groups, lr=args.lr)


class Updates:
    """What happens between the backward passes of a step and the next one.

    Args:
        args: the flags of flags.py.
        slow: SMART's momentum teacher, if there is one.
        steps: of the whole run.
    """

    def __init__(self, args: Any, model: nn.Module, slow: Any, steps: int):
        self.args, self.model, self.slow, self.steps = args, model, slow, steps
        self.gradients = TaskGradients(model.parameters()) if args.gradients else None
        self.chance = torch.Generator()
        self.vaccine = GradVac(len(args.tasks), generator=self.chance)
        self.rules: dict[str, Callable[[Tensor], Tensor]] = {
            "sum": lambda products: torch.ones(len(products)),
            "pcgrad": partial(pcgrad, generator=self.chance),
            "gradvac": self.vaccine,
            "cagrad": cagrad,
        }
        decay = args.average_decay if args.average == "ema" else None
        self.average = Average(model, decay, warm_up=True) if args.average else None

    def factor(self, step: int) -> float:
        """The factor of --schedule on the learning rates."""
        rising = round(self.args.warmup * self.steps)
        return schedules.factor(self.args.schedule, step, self.steps, rising)

    def is_whole(self, task: str, step: int) -> bool:
        """Whether there is a gradient for an update now; else another task's has to come first.

        Orders drawn by chance depend on the seed and the step alone, so that processes agree and a
        resumed run goes on alike.
        """
        if self.gradients is None:
            return True
        self.gradients.take(task)
        if len(self.gradients.taken) < len(self.args.tasks):
            return False
        self.chance.manual_seed(self.args.seed + step)
        self.gradients.combine(self.rules[self.args.gradients])
        return True

    def after(self, step: int) -> None:
        """After an update: averages and copies follow."""
        if self.slow:
            self.slow.follow(self.model, smart.momentum(step, self.steps))
        if self.average and (self.args.average == "ema" or 2 * step >= self.steps):
            self.average.update(self.model)

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs: plain values and tensors; empty without flags."""
        found: dict[str, Any] = {}
        if self.slow:
            found["slow"] = self.slow.model.state_dict()
        if self.average:
            found["average"] = self.average.state_dict()
        if self.args.gradients == "gradvac":
            found["targets"] = self.vaccine.targets
        return found

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what ``state_dict`` gave."""
        if self.slow:
            self.slow.model.load_state_dict(state["slow"])
        if self.average:
            self.average.load_state_dict(state["average"])
        if self.args.gradients == "gradvac":
            self.vaccine.targets = state["targets"]

    @contextmanager
    def averaged_weights(self, model: nn.Module) -> Iterator[None]:
        """Within it the model has the averaged weights, if there are any."""
        if self.average and self.average.count:
            with self.average.inside(model):
                yield
        else:
            yield
