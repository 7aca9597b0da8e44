"""Batches in which no sentence comes twice, for losses that take the rest of a batch as negatives.

Such a loss pushes each anchor away from all partners but its own. With (a, b) and (a, c) in one
batch, a would be pushed away from c, which means the same. In front of the loop:

    keys = [compared_texts(first, second, relation) for … in rows]
    sampler = NoDuplicates(lengths, batch_size, seed, keys)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from training.loop.batches import LengthBatches


class NoDuplicates(LengthBatches):
    """LengthBatches in which a row that would repeat something waits for a later batch.

    A batch keeps its own rows, with their similar lengths, as far as it can; gaps go to rows that
    wait. Every row comes once an epoch; what waits at its end makes batches of its own.

    Args:
        keys: of each row, what no other row of its batch may have.
    """

    def __init__(
        self, lengths: Sequence[int], batch_size: int, seed: int, keys: Sequence[Collection]
    ):
        super().__init__(lengths, batch_size, seed)
        self.keys = [frozenset(row) for row in keys]

    def __len__(self) -> int:
        """Batches of this epoch: other epochs may have a few more or less."""
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[list[int]]:
        batches, waiting = super().__iter__(), []
        while rows := next(batches, []) + waiting:
            batch, waiting, taken = [], [], set()
            for row in rows:
                if len(batch) < self.batch_size and taken.isdisjoint(self.keys[row]):
                    batch.append(row)
                    taken |= self.keys[row]
                else:
                    waiting.append(row)
            yield batch


def compared_texts(first: str, second: str, relation: str) -> set[str]:
    """The texts of a pair that a ranking loss compares, as the model sees them.

    Of a pair that says the "same" both, of a "different" one the second, a negative of all anchors.
    """
    texts = {"same": (first, second), "different": (second,), "unknown": ()}[relation]
    return {text.lower().strip() for text in texts}
