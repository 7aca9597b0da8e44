"""The batches that the functions of part 2 are called with, and changes of them.

B is the number of sentences or pairs.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from checks.part2.models import SINGLE

CLS, SEP, FIRST_WORD, WORDS = 101, 102, 999, 100
# Of seven first and seven second sentences: no class, width or usual constant is 7.
LENGTHS = ((9, 6, 4, 8, 5, 7, 10), (6, 4, 8, 5, 7, 3, 11))


def sentences(side: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Ids and mask, (B, L) each, as the tokenizer gives them; no word is in both sides."""
    lengths = torch.tensor(LENGTHS[side]).roll(seed // len(LENGTHS[0]) ** side)[:, None]  # (B, 1)
    place = torch.arange(int(lengths.max()))  # (L,)
    generator = torch.Generator().manual_seed(2 * seed + side)
    words = torch.randint(0, 25, (len(lengths), len(place)), generator=generator)
    ids = FIRST_WORD + (words + 50 * side + seed) % WORDS
    ids[:, 0] = CLS
    ids = torch.where(place == lengths - 1, SEP, ids) * (place < lengths)
    return ids, (place < lengths).long()


def other_words(ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The same batch, each word another one, which no side has."""
    return torch.where(ids >= FIRST_WORD, FIRST_WORD + (ids - FIRST_WORD + 25) % WORDS, ids), mask


def wider(ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The same batch, with three more columns of padding."""
    return tuple(nn.functional.pad(tensor, (0, 3)) for tensor in (ids, mask))


Batch = list[tuple[Tensor, Tensor]]  # of each side: ids, mask


def batch_for(task_id: str, seed: int = 0) -> Batch:
    """What a task's function is called with."""
    return [sentences(side, seed) for side in range(1 if task_id in SINGLE else 2)]


def changed(batch: Batch, side: int, change: Callable[..., tuple[Tensor, Tensor]]) -> Batch:
    """A batch in which one side is changed."""
    return [change(*pair) if i == side else pair for i, pair in enumerate(batch)]


def copied(batch: Batch) -> Batch:
    """The same batch in tensors of its own, which the student's function may change."""
    return [(ids.clone(), mask.clone()) for ids, mask in batch]


def rows_of(batch: Batch, rows: slice) -> Batch:
    """Some rows of a batch."""
    return [(ids[rows], mask[rows]) for ids, mask in batch]
