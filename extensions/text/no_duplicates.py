"""Batches in which no sentence comes twice, for losses that take the rest of a batch as negatives.

Such a loss pushes each anchor away from all partners but its own. With (a, b) and (a, c) in one
batch, a would be pushed away from c, which means the same. It is not enough to compare sentences:
with a ≡ b and a ≡ c, the pairs (b, d) and (c, e) share none, yet b ≡ c. So ``groups`` numbers what
is said to be the same, and the sampler keeps the numbers apart. In front of the loop:

    sampler = without_duplicates(sampler, [(first, second, relation) for … in rows])
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Hashable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch.utils.data import Sampler


class NoDuplicates(Sampler):
    """Another sampler's batches; a row that would repeat something waits for a later one.

    A batch keeps its own rows, with their similar lengths, as far as it can; gaps go to rows that
    wait. Every row comes once an epoch; what waits at its end makes batches of its own.

    Args:
        batches: a LengthBatches, or what else has its batch_size, set_epoch and iteration.
        keys: of each row, what no other row of its batch may have: its sentences, as the model
            sees them (lower case, stripped), or their groups.
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


def groups(pairs: Sequence[tuple[Hashable, Hashable]]) -> dict[Hashable, int]:
    """Of each sentence the number of its group: all that mean the same, by way of others too.

    Args:
        pairs: those that mean the same (label 1), no others.
    """
    texts = list(dict.fromkeys(itertools.chain.from_iterable(pairs)))
    number = {text: i for i, text in enumerate(texts)}
    rows, columns = [number[a] for a, _ in pairs], [number[b] for _, b in pairs]
    graph = coo_array((np.ones(len(pairs)), (rows, columns)), shape=(len(texts), len(texts)))
    return dict(zip(texts, connected_components(graph, directed=False)[1].tolist(), strict=True))


def without_duplicates(batches: Any, pairs: Sequence[tuple[str, str, str]]) -> NoDuplicates:
    """Batches in which no text comes twice, nor one that means the same.

    Args:
        batches: a sampler of rows.
        pairs: each row's two texts and "entailment", "neutral" or "contradiction".
    """
    group = groups([(a, b) for a, b, relation in pairs if relation == "entailment"])
    # of a pair both texts, of a negative the one that others are held against, else none
    texts = {"entailment": slice(0, 2), "contradiction": slice(1, 2), "neutral": slice(0)}
    keys = [{group.get(text, text) for text in pair[texts[pair[2]]]} for pair in pairs]
    return NoDuplicates(batches, keys)
