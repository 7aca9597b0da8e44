"""Batches in which no sentence comes twice, for losses that take the rest of a batch as negatives.

Such a loss pushes each anchor away from all partners but its own. With (a, b) and (a, c) in one
batch, a would be pushed away from c, which means the same. It is not enough to compare sentences:
with a ≡ b and a ≡ c, the pairs (b, d) and (c, e) share none, yet b ≡ c. So ``groups`` gives a number
to everything that is said to be the same, and the sampler keeps the numbers apart. A hard negative
is hard for one anchor only, so it comes in that anchor's batch. In front of the loop:

    sampler = without_duplicates(sampler, [(first, second, relation) for … in rows])
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch.utils.data import Sampler

from extensions.loss.simcse import triplets


class NoDuplicates(Sampler):
    """Another sampler's batches; a row that would repeat something waits for room in a later one.

    A batch keeps its own rows, with their similar lengths, as far as it can, and only the gaps go
    to rows that wait. Every row still comes once an epoch, in an order that follows from the other
    sampler's seed and epoch alone. What waits at the end of an epoch makes batches of its own, some
    of them small; one of a single row has no negatives.

    Args:
        batches: a LengthBatches, or what else has its batch_size, set_epoch and iteration.
        keys: of each row, what no other row of its batch may have: its sentences, as the model
            sees them (lower case, stripped), or their groups.
        together: rows that come in one batch, such as a pair and a hard negative for it; a row
            is in one of these at most. Larger ones than a batch are taken apart.
    """

    def __init__(
        self,
        batches: Any,
        keys: Sequence[Collection[Hashable]],
        together: Iterable[tuple[int, ...]] = (),
    ):
        self.batches = batches
        self.keys = [frozenset(row) for row in keys]
        fitting = (unit for unit in together if len(unit) <= batches.batch_size)
        self.units = {row: unit for unit in fitting for row in unit}

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch whose order comes next."""
        self.batches.set_epoch(epoch)

    def __len__(self) -> int:
        """Batches of this epoch: other epochs may have a few more or less."""
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[list[int]]:
        waiting: list[int] = []
        done: set[int] = set()
        for rows in self.batches:
            batch, waiting = self._fill(rows + waiting, done)
            if batch:  # its rows may all have come before, together with others
                yield batch
        while waiting:
            batch, waiting = self._fill(waiting, done)
            if batch:
                yield batch

    def _fill(self, rows: list[int], done: set[int]) -> tuple[list[int], list[int]]:
        """(the first rows that go together, up to a batch of them; the others).

        Args:
            done: rows that have been in a batch of this epoch; those of this one are added.
        """
        batch: list[int] = []
        rest: list[int] = []
        taken: set[Hashable] = set()
        for row in rows:
            if row in done:
                continue
            unit = self.units.get(row, (row,))
            keys = frozenset().union(*(self.keys[member] for member in unit))
            if len(batch) + len(unit) <= self.batches.batch_size and taken.isdisjoint(keys):
                batch += unit
                done.update(unit)
                taken |= keys
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
    """Batches for a loss that takes other rows' texts as negatives.

    In these no text comes twice, nor one that means the same; and a pair comes with a hard
    negative, a row with the same first text that contradicts it, where there is one.

    Args:
        batches: a sampler of rows.
        pairs: each row's two texts and "entailment", "neutral" or "contradiction".
    """
    group = groups([(a, b) for a, b, relation in pairs if relation == "entailment"])
    # of a pair both texts, of a negative the one that others are held against, else none
    texts = {"entailment": slice(0, 2), "contradiction": slice(1, 2), "neutral": slice(0)}
    keys = [{group.get(text, text) for text in pair[texts[pair[2]]]} for pair in pairs]
    numbered = ((a, row, relation) for row, (a, _, relation) in enumerate(pairs))
    together = [rows for _, *rows in triplets(numbered)]
    apart = (tuple(rows) for rows in together if keys[rows[0]].isdisjoint(keys[rows[1]]))
    return NoDuplicates(batches, keys, apart)
