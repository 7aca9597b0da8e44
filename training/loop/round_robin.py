"""Several training sets in one run, one batch of each after the other."""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping

from torch.utils.data import DataLoader

from training.files.errors import InputError


class RoundRobin:
    """The batches of several training sets, one set after the other, each set's without end.

    A batch tells in ``batch["task"]`` whose it is. Every epoch of ``steps`` batches begins with the
    first set; where a set continues follows from the steps before: there is no state to save.
    """

    def __init__(self, loaders: Mapping[str, DataLoader], steps: int):
        if steps < len(loaders):
            why = f"{list(loaders)[-1]} would never have a step; give at least {len(loaders)}"
            raise InputError(f"--steps_per_epoch {steps} is too few: {why}")
        self.loaders, self.steps, self.epoch, self.skip = loaders, steps, 1, 0

    def set_epoch(self, epoch: int, skip: int = 0) -> None:
        """Set the epoch whose batches come next, and how many of them to leave out."""
        self.epoch, self.skip = epoch, skip

    def __len__(self) -> int:
        return self.steps

    def order(self, epoch: int) -> list[str]:
        """The set of each batch of an epoch."""
        return [*itertools.islice(itertools.cycle(self.loaders), self.steps)]

    def __iter__(self) -> Iterator[dict]:
        order = [name for epoch in range(self.epoch) for name in self.order(epoch + 1)]
        start = (self.epoch - 1) * self.steps + self.skip
        taken = Counter(order[:start])
        streams = {name: endless(loader, taken[name]) for name, loader in self.loaders.items()}
        for name in order[start:]:
            yield next(streams[name]) | {"task": name}


def endless(loader: DataLoader, skip: int) -> Iterator[dict]:
    """A set's batches, all of them again and again in new orders; the first ``skip`` left out."""
    for epoch in itertools.count(1):
        loader.batch_sampler.set_epoch(epoch)
        for rows in loader.batch_sampler:
            if skip > 0:
                skip -= 1
            else:
                yield loader.dataset.collate_fn([loader.dataset[i] for i in rows])
