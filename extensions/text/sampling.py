"""Which task trains next, and its batches.

    round robin    one task after the other, in every epoch from the first on
    annealed       P(task) ∝ N^α, N its number of training examples, α = 1 − 0.8 (e − 1) / (E − 1)
                   in epoch e of E: Stickland & Murray 2019 ("BERT and PALs"), section 4
    before         an epoch of one task alone; then round robin of the others

In the loop:

    loader = Turns(loaders, steps, "annealed", epochs=epochs, seed=seed)
    for step in loader:
        for batch in step["turns"]:  # of the task batch["task"]
            …
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping

from torch.utils.data import DataLoader

from training.loop.round_robin import RoundRobin

KINDS = ("round_robin", "annealed", "before")


class Turns(RoundRobin):
    """Steps of the tasks whose turn it is, each task's batches without end.

    Args:
        loaders: each task's training batches, with set_epoch in their batch_sampler.
        steps: batches of an epoch.
        kind: one of KINDS, or 'together': every step has a batch of each task, and counts as so
            many.
        epochs: of the run, along which 'annealed' changes.
        first_task: of 'before'.
    """

    def __init__(
        self,
        loaders: Mapping[str, DataLoader],
        steps: int,
        kind: str = "round_robin",
        *,
        epochs: int = 1,
        seed: int = 0,
        first_task: str = "",
    ):
        self.size = len(loaders) if kind == "together" else 1  # batches of a step
        super().__init__(loaders, math.ceil(steps / self.size) * self.size)
        self.kind, self.epochs, self.seed, self.first_task = kind, epochs, seed, first_task

    def set_epoch(self, epoch: int, skip: int = 0) -> None:
        """Set the epoch whose steps come next, and how many of them to leave out."""
        super().set_epoch(epoch, skip * self.size)

    def __len__(self) -> int:
        return self.steps // self.size

    def order(self, epoch: int) -> list[str]:
        """The task of each batch of an epoch."""
        names = list(self.loaders)
        if self.kind == "annealed":
            alpha = 1.0 - 0.8 * (epoch - 1) / max(1, self.epochs - 1)  # from 1 to 0.2
            weights = [len(loader.dataset) ** alpha for loader in self.loaders.values()]
            chance = random.Random(self.seed + 1_000_003 * epoch)
            return chance.choices(names, weights, k=self.steps)
        if self.kind == "before":
            names = [name for name in names if (name == self.first_task) == (epoch == 1)]
        return [*itertools.islice(itertools.cycle(names), self.steps)]

    def __iter__(self) -> Iterator[dict]:
        batches = super().__iter__()
        while turns := [*itertools.islice(batches, self.size)]:
            yield {"turns": turns, "labels": [row for batch in turns for row in batch["labels"]]}
