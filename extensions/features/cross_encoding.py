"""Cross encoding: two sentences through BERT in one pass.

    h = BERT([CLS] a [SEP] b [SEP]),  segment 0 up to the first [SEP], then 1

Each word of one sentence can then attend to the words of the other, which a bi-encoder's two passes
do not allow (Devlin et al. 2019, section 3, figure 1; Reimers & Gurevych 2019, section 2, on the
price: to compare n sentences with one another takes n² / 2 passes, not n). In the model:

    ids, mask, segments = concat(ids_1, mask_1, ids_2, mask_2, pad_id, positions)  # (B, L) each
    hidden = self.bert.encode(self.bert.embed(ids, segments), mask)  # (B, L, D)
"""

from __future__ import annotations

import torch
from torch import Tensor

from tokenizer import truncate_longest_first
from training.loop.batches import cpu_copy, to_device


def concat(
    ids_1: Tensor, mask_1: Tensor, ids_2: Tensor, mask_2: Tensor, pad_id: int, max_length: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Join two padded batches row by row, on the CPU: a device would have to be asked for widths.

    Pairs longer than ``max_length`` are cut as the tokenizer's 'longest_first' cuts them: the
    longer text gives way until both fit; two long ones get half of the positions each.

    Args:
        ids_1, mask_1: (B, L1), rows [CLS] a [SEP] with their padding on the right.
        ids_2, mask_2: (B, L2), rows [CLS] b [SEP].
        pad_id: what fills the rows of the result up.
        max_length: the model's number of positions, at least 5.

    Returns:
        (ids, mask, segments), (B, L) int64 each: [CLS] a [SEP] of segment 0, b [SEP] of segment 1.
    """
    joined = []
    for first, second in zip(unpadded(ids_1, mask_1), unpadded(ids_2, mask_2), strict=True):
        texts = truncate_longest_first(first[1:-1], second[1:-1], max_length - 3)
        joined.append((first[:1] + texts[0] + first[-1:], texts[1] + second[-1:]))
    width = max(len(first) + len(second) for first, second in joined)  # L
    ids, mask, segments = [], [], []
    for first, second in joined:
        padding = width - len(first) - len(second)
        ids.append(first + second + [pad_id] * padding)
        mask.append([1] * (width - padding) + [0] * padding)
        segments.append([0] * len(first) + [1] * len(second) + [0] * padding)
    return tuple(to_device(torch.tensor(rows), ids_1.device) for rows in (ids, mask, segments))


def unpadded(ids: Tensor, mask: Tensor) -> list[list[int]]:
    """The ids of each row without its padding: (B, L) twice → B lists."""
    lengths = cpu_copy(mask).numpy().sum(axis=1)  # (B,)
    return [row[:n] for row, n in zip(cpu_copy(ids).numpy().tolist(), lengths, strict=True)]
