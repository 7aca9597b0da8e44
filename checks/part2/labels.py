"""What a training loop does with the labels of STS, seen from outside: every operation on them.

It does not know how any loop is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class LabelWatch(TorchFunctionMode):
    """While active, notes whether labels are cut to integers, and whether they are broadcast.

    Args:
        labels: of all rows; some have fractions.
    """

    def __init__(self, labels: Sequence[float]):
        super().__init__()
        self.labels, self.rows = torch.tensor(sorted(set(labels))), len(labels)
        self.are_cut = False
        self.broadcast = 0  # how many labels (B,) met as many scores (B, 1)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func is torch.tensor and isinstance(args[0], list):
            given = torch.tensor(args[0]) if all(isinstance(x, float) for x in args[0]) else None
            self.are_cut |= self.holds(given) and not result.is_floating_point()
        for given in filter(self.holds, args):
            self.are_cut |= self.is_cut(given, result)
            scores = [x.shape for x in args if isinstance(x, Tensor) and not self.holds(x)]
            if given.dim() == 1 and (given.numel(), 1) in scores:
                self.broadcast = given.numel()
        return result

    def holds(self, value: Any) -> bool:
        """Whether a value is a tensor of labels, of which some have fractions."""
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return False
        if not 1 < value.numel() <= self.rows:
            return False
        flat = value.detach().flatten().float()
        near = (flat[:, None] - self.labels).abs().amin(dim=-1) < 1e-4
        return bool(near.all()) and bool((flat != flat.round()).any())

    def is_cut(self, given: Tensor, result: Any) -> bool:
        """Whether a result is the given labels, each without its fraction or rounded."""
        if not isinstance(result, Tensor) or result.numel() != given.numel():
            return False
        if result.dtype == torch.bool or result is given:
            return False
        numbers, labels = result.detach().flatten().float(), given.detach().flatten().float()
        return any(torch.equal(numbers, to(labels)) for to in (torch.trunc, torch.round))
