"""Cross encoding: two sentences through BERT in one pass.

    h = BERT([CLS] a [SEP] b [SEP]),  segment 0 up to the first [SEP], then 1

Each word of one sentence can then attend to the words of the other, which a bi-encoder's two passes
do not allow (Devlin et al. 2019, section 3, figure 1; Reimers & Gurevych 2019, section 2, on the
price: to compare n sentences with one another takes n² / 2 passes, not n). In the model:

    ids, mask, segments = concat(ids_1, mask_1, ids_2, mask_2, pad_id, positions)  # (B, L) each
    hidden = self.bert.encode(self.bert.embed(ids, segments), mask)  # (B, L, D)
"""

from __future__ import annotations

import inspect

import torch
from torch import Tensor, nn

from training.files.errors import InputError
from training.loop.batches import on_host, to_device


def concat(
    ids_1: Tensor, mask_1: Tensor, ids_2: Tensor, mask_2: Tensor, pad_id: int, max_length: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Join two padded batches row by row, without a loop over the rows.

    That is done on the CPU, where ``micro_batches`` still has them: how wide the result is would
    have to be read from a device.

    Pairs longer than ``max_length`` are cut as the tokenizer's 'longest_first' cuts them: the
    longer text gives way until both fit; two long ones get half of the places each.

    Args:
        ids_1, mask_1: (B, L1), rows [CLS] a [SEP] with their padding on the right.
        ids_2, mask_2: (B, L2), rows [CLS] b [SEP].
        pad_id: what fills the rows of the result up.
        max_length: the model's number of positions, at least 5.

    Returns:
        (ids, mask, segments), (B, L) int64 each: [CLS] a [SEP] of segment 0, b [SEP] of segment 1.
    """
    device = ids_1.device
    ids_1, mask_1, ids_2, mask_2 = map(on_host, (ids_1, mask_1, ids_2, mask_2))
    whole_1, whole_2 = mask_1.sum(dim=1), mask_2.sum(dim=1)  # (B,), specials included
    keep_1, keep_2 = cut_longest_first(whole_1 - 2, whole_2 - 2, max_length - 3)  # (B,), without
    ends = (keep_1 + keep_2 + 3)[:, None]  # (B, 1)
    place = torch.arange(ends.numpy().max())[None, :]  # (1, L)
    middle = (keep_1 + 1)[:, None]  # (B, 1), where the first [SEP] goes

    # For each place of the result, where its id is in [ids_1 | ids_2]
    width = ids_1.size(1)
    source = place.expand(len(ids_1), -1)  # (B, L): [CLS] a
    source = torch.where(place == middle, (whole_1 - 1)[:, None], source)  # [SEP]
    source = torch.where(place > middle, width + place - middle, source)  # b
    source = torch.where(place == ends - 1, width + (whole_2 - 1)[:, None], source)  # [SEP]
    real = place < ends  # (B, L)
    both = torch.cat([ids_1, ids_2], dim=1)  # (B, L1 + L2)
    ids = both.gather(1, source.masked_fill(~real, 0)).masked_fill(~real, pad_id)  # (B, L)
    joined = ids, real.long(), (real & (place > middle)).long()
    return tuple(to_device(tensor, device) for tensor in joined)


def cut_longest_first(tokens_1: Tensor, tokens_2: Tensor, limit: int) -> tuple[Tensor, Tensor]:
    """How many tokens to keep of two texts: (B,), (B,) → (B,), (B,), at most ``limit`` together."""
    short = torch.minimum(tokens_1, tokens_2).clamp(max=limit // 2)
    long = torch.minimum(torch.maximum(tokens_1, tokens_2), limit - short)
    first_is_longer = tokens_1 > tokens_2
    return torch.where(first_is_longer, long, short), torch.where(first_is_longer, short, long)


def check_segments(bert: nn.Module) -> None:
    """InputError, in one line, if a model's ``embed`` takes no segment ids."""
    if "token_type_ids" not in inspect.signature(bert.embed).parameters:
        raise InputError(
            "cross encoding needs segment ids, but BertModel.embed in bert.py takes none: "
            "give it token_type_ids=None as its second argument, or use --pair_encoding bi"
        )
