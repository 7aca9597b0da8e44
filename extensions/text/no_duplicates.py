"""Batches in which no sentence comes twice, for losses that take the rest of a batch as negatives.

Such a loss pushes each anchor away from all partners but its own. With (a, b) and (a, c) in one
batch, a would be pushed away from c, which means the same. In front of the loop:

    sampler = NoDuplicates(sampler, [compared_texts(first, second, relation) for … in rows])
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from typing import Any

from torch.utils.data import Sampler


class NoDuplicates(Sampler):
    """Another sampler's batches; a row that would repeat something waits for a later one.

    A batch keeps its own rows, with their similar lengths, as far as it can; gaps go to rows that
    wait. Every row comes once an epoch; what waits at its end makes batches of its own.

    Args:
        batches: a LengthBatches, or what else has its batch_size, set_epoch and iteration.
        keys: of each row, what no other row of its batch may have.
    """

    def __init__(self, batches: Any, keys: Sequence[Collection[Hashable]]):
        self.batches = batches
        self.keys = [frozenset(row) for row in keys]

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch whose order comes next."""
        self.batches.set_epoch(epoch)

    def __len__(self) -> int:
        """Batches of this epoch: other epochs may have a few more or less."""
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[list[int]]:
        waiting: list[int] = []
        for rows in self.batches:
            batch, waiting = self._fill(rows + waiting)
            yield batch
        while waiting:
            batch, waiting = self._fill(waiting)
            yield batch

    def _fill(self, rows: list[int]) -> tuple[list[int], list[int]]:
        """(the first rows that go together, up to a batch of them; the others)."""
        batch: list[int] = []
        rest: list[int] = []
        taken: set[Hashable] = set()
        for row in rows:
            if len(batch) < self.batches.batch_size and taken.isdisjoint(self.keys[row]):
                batch.append(row)
                taken |= self.keys[row]
            else:
                rest.append(row)
        return batch, rest


def compared_texts(first: str, second: str, relation: str) -> set[str]:
    """The texts of a pair that a ranking loss compares, as the model sees them.

    Of a pair that says the "same" both, of a "different" one the second, a negative of all anchors.
    """
    texts = {"same": (first, second), "different": (second,), "unknown": ()}[relation]
    return {text.lower().strip() for text in texts}
