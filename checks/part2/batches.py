"""The batches that the functions of part 2 are called with, and changes of them.

B is the number of sentences or pairs, L that of tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from checks.part2.models import SINGLE

CLS, SEP, FIRST_WORD, WORDS = 101, 102, 999, 100
# Of seven first and seven second sentences: no class, width or usual constant is 7.
LENGTHS = ((9, 6, 4, 8, 5, 7, 10), (6, 4, 8, 5, 7, 3, 11))
B = len(LENGTHS[0])

Batch = list[tuple[Tensor, Tensor]]  # of each side: ids, mask


def sentences(side: int) -> tuple[Tensor, Tensor]:
    """Ids and mask, (B, L) each, as the tokenizer gives them; no word is in both sides."""
    lengths = torch.tensor(LENGTHS[side])[:, None]  # (B, 1)
    position = torch.arange(int(lengths.max()))  # (L,)
    generator = torch.Generator().manual_seed(side)
    words = torch.randint(0, 25, (B, len(position)), generator=generator)
    ids = FIRST_WORD + (words + 50 * side) % WORDS
    ids[:, 0] = CLS
    ids = torch.where(position == lengths - 1, SEP, ids) * (position < lengths)
    return ids, (position < lengths).long()


def batch_for(task_id: str) -> Batch:
    """What a task's function is called with."""
    return [sentences(side) for side in range(1 if task_id in SINGLE else 2)]


def other_words(ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The same batch, each word replaced by one that is in neither side."""
    return torch.where(ids >= FIRST_WORD, FIRST_WORD + (ids - FIRST_WORD + 25) % WORDS, ids), mask


def wider(ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The same batch with three more columns of padding."""
    return nn.functional.pad(ids, (0, 3)), nn.functional.pad(mask, (0, 3))
