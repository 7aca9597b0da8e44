"""Running means of an epoch, whose values stay on the device until somebody reads them.

Reading a number from a GPU waits for all the work that was given to it; so losses are kept there,
and read together once in a while.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from training.loop.processes import gather


class RunningMeans:
    """Sums and counts by name, and the loss of each step since the last reading.

    Args:
        sums: where an interrupted epoch continues: {name: [sum, count]}.
    """

    def __init__(self, sums: Mapping[str, list[float]] | None = None):
        self.sums = {name: list(pair) for name, pair in (sums or {}).items()}
        self.unread: list[tuple[str, int, Tensor]] = []  # name, count and sum
        self.steps: list[tuple[Tensor, float]] = []  # loss and learning rate
        self.step_loss = torch.zeros(())

    def add(self, count: int, of: int, values: Mapping[str, Tensor]) -> None:
        """Add means over ``count`` items, or ``count`` numbers; the batch has ``of`` of them."""
        for name, value in values.items():
            # float64, which MPS does not have
            wide = torch.float32 if value.device.type == "mps" else torch.float64
            value = value.detach()
            total = value.to(wide).sum() if value.dim() else value.to(wide) * count
            self.unread.append((name, count, total))
            if name == "loss":
                self.step_loss = self.step_loss.to(total) + (value * count / of).to(wide)

    def end_step(self, rate: float) -> None:
        """End a step that was made with this learning rate."""
        self.steps.append((self.step_loss, rate))
        self.step_loss = torch.zeros(())

    def read(self) -> list[tuple[float, float]]:
        """Add what was not read yet to ``sums``, over all processes; → loss and rate of each step.

        All processes have to call this after the same steps.
        """
        numbers = [total for _, _, total in self.unread] + [loss for loss, _ in self.steps]
        if numbers:
            numbers = torch.stack([number.to(numbers[0]) for number in numbers]).tolist()
        totals, losses = numbers[: len(self.unread)], numbers[len(self.unread) :]
        entries = [
            (name, count, total)
            for (name, count, _), total in zip(self.unread, totals, strict=True)
        ]
        rates = [rate for _, rate in self.steps]
        self.unread, self.steps = [], []
        everywhere = gather((entries, losses))
        for name, count, total in (entry for entries, _ in everywhere for entry in entries):
            pair = self.sums.setdefault(name, [0.0, 0])
            pair[0], pair[1] = pair[0] + total, pair[1] + count
        losses = [sum(parts) for parts in zip(*(losses for _, losses in everywhere), strict=True)]
        return list(zip(losses, rates, strict=True))

    def means(self) -> dict[str, float]:
        """Each sum divided by its count."""
        return {name: total / max(1, count) for name, (total, count) in self.sums.items()}

    def clear(self) -> None:
        """Begin again at 0."""
        self.sums = {}
