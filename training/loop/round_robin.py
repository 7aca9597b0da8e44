"""Several tasks' batches, one task after the other."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import torch

from training.files.errors import InputError
from training.loop.batches import TrainingLoader


class RoundRobin:
    """The batches of several training sets, one set after the other, each set's without end.

    A batch tells in ``batch["task"]`` whose it is. Every epoch begins with the first set; where a
    set continues follows from the number of steps before, so that there is no state to save.

    Args:
        loaders: by the names of the sets.
        steps: how long an epoch is.
    """

    def __init__(self, loaders: Mapping[str, TrainingLoader], steps: int):
        names = list(loaders)
        if steps < len(names):
            raise InputError(
                f"--steps_per_epoch {steps} is too few: each epoch begins with {names[0]}, and "
                f"{names[-1]} would never have a step; give at least {len(names)}"
            )
        self.loaders = loaders
        self.order = [names[step % len(names)] for step in range(steps)]
        self.remaining: list[str] = []
        self.streams: dict[str, Iterator[dict]] = {}
        pieces = {name: loader.pieces_per_batch for name, loader in loaders.items()}  # summed once
        self.pieces_per_batch = sum(pieces[name] for name in self.order) / steps

    def set_epoch(self, epoch: int, skip: int = 0) -> None:
        """Set the epoch whose batches come next, and how many of them to leave out."""
        done, self.remaining = self.order[:skip], self.order[skip:]
        before = {
            name: (epoch - 1) * self.order.count(name) + done.count(name) for name in self.loaders
        }
        self.streams = {name: endless(self.loaders[name], count) for name, count in before.items()}

    def __len__(self) -> int:
        return len(self.order)

    def __iter__(self) -> Iterator[dict]:
        for name in self.remaining:
            yield next(self.streams[name]) | {"task": name}


def endless(loader: TrainingLoader, skip: int) -> Iterator[dict]:
    """A set's batches, all of them again and again in new orders; the first ``skip`` left out."""
    rounds, batches = divmod(skip, len(loader))
    for epoch in itertools.count(rounds + 1):
        loader.set_epoch(epoch, batches)
        # a loader draws a number when it begins; not from the run's, which would then depend on
        # how often it was interrupted
        loader.generator = torch.Generator()
        yield from loader
        batches = 0
