"""BertModel.embed, Task 1.4, with each known mistake as a switch."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from course.switches import chosen

SLOTS = {
    "dropout": "no_dropout dropout_in_evaluation dropout_before_norm dropout_on_words "
    "dropout_twice dropout_only_in_evaluation dropout_rate_in_code",
    "words": "no_words words_scaled words_detached words_twice words_normalised_too",
    "positions": "no_positions positions_from_one positions_from_the_end positions_not_cut "
    "positions_of_batch position_is_the_sentence same_position positions_of_real_pieces "
    "positions_of_real_pieces_from_zero positions_of_words positions_twice",
    "segments": "no_segments no_segments_unless_given segments_ignored segments_of_one "
    "segments_of_positions segments_of_mask segments_twice",
    "sum": "multiplied positions_subtracted segments_subtracted",
    "norm": "no_norm norm_of_each norm_of_words norm_before_positions norm_before_segments "
    "norm_without_weights norm_twice norm_over_tokens norm_without_bias norm_sample_variance",
    "padding": "padding_zeroed padding_zeroed_at_the_end",
    "result": "result_detached result_transposed",
}  # fmt: skip


def embed(wrong: frozenset[str], self, input_ids, token_type_ids=None) -> Tensor:
    """The function, with the mistakes in ``wrong``: ids (B, L) → (B, L, D)."""
    words = chosen(
        {
            "no_words": lambda x: torch.zeros_like(x),
            "words_scaled": lambda x: x * math.sqrt(x.size(-1)),
            "words_detached": lambda x: x.detach(),
            "words_twice": lambda x: 2 * x,
            "words_normalised_too": self.embed_layer_norm,
        },
        wrong,
        lambda x: x,
    )(self.word_embedding(input_ids))
    if "dropout_on_words" in wrong:
        words = self.embed_dropout(words)
    positions = positions_of(wrong, self, input_ids)
    segments = segments_of(wrong, self, input_ids, token_type_ids)
    result = normed(wrong, self, input_ids, words, positions, segments)
    if "padding_zeroed_at_the_end" in wrong:
        result = result * (input_ids != 0)[..., None]
    p = self.embed_dropout.p
    ways = {
        **dict.fromkeys(("no_dropout", "dropout_before_norm", "dropout_on_words"), lambda x: x),
        "dropout_in_evaluation": lambda x: F.dropout(x, p),
        "dropout_only_in_evaluation": lambda x: F.dropout(x, p, not self.training),
        "dropout_rate_in_code": lambda x: F.dropout(x, 0.1, self.training),
    }
    result = chosen(ways, wrong, self.embed_dropout)(result)
    if "result_transposed" in wrong:
        result = result.transpose(0, 1)
    return result.detach() if "result_detached" in wrong else result


def positions_of(wrong: frozenset[str], self, ids: Tensor) -> Tensor:
    """The embeddings of the positions: (1, L, D) or (B, L, D)."""
    length, every = ids.size(1), self.position_ids  # (1, longest)
    real = (ids != 0).long()  # (B, L)
    ways = {
        "positions_from_one": lambda: every[:, 1 : length + 1],
        "positions_from_the_end": lambda: every[:, :length].flip(1),
        "positions_not_cut": lambda: every,
        "positions_of_batch": lambda: every[:, : ids.size(0)],
        "position_is_the_sentence": lambda: every[:, : ids.size(0)].T,
        "same_position": lambda: every[:, :1],
        "positions_of_real_pieces": lambda: real.cumsum(1) * real,
        "positions_of_real_pieces_from_zero": lambda: (real.cumsum(1) - 1).clamp(min=0) * real,
    }
    found = self.pos_embedding(chosen(ways, wrong, lambda: every[:, :length])())
    if "no_positions" in wrong:
        return torch.zeros_like(found)
    if "positions_of_words" in wrong:
        return self.word_embedding(every[:, :length])
    return 2 * found if "positions_twice" in wrong else found


def segments_of(wrong: frozenset[str], self, ids: Tensor, given: Tensor | None) -> Tensor:
    """The embeddings of the segments: (B, L, D)."""
    if given is None or "segments_ignored" in wrong:
        kinds = {
            "segments_of_one": torch.ones_like(ids),
            "segments_of_mask": (ids != 0).long(),
        }
        kinds = chosen(kinds, wrong, torch.zeros_like(ids))
    else:
        kinds = given
    if "segments_of_positions" in wrong:
        return self.pos_embedding(kinds)
    found = self.tk_type_embedding(kinds)
    if "no_segments" in wrong or ("no_segments_unless_given" in wrong and given is None):
        return torch.zeros_like(found)
    return 2 * found if "segments_twice" in wrong else found


def normed(wrong: frozenset[str], self, ids, words, positions, segments) -> Tensor:
    """The norm of the sum of the three."""
    norm = self.embed_layer_norm
    if "positions_subtracted" in wrong:
        positions = -positions
    if "segments_subtracted" in wrong:
        segments = -segments
    total = words + positions + segments
    if "multiplied" in wrong:
        total = words * positions * segments
    if "padding_zeroed" in wrong:
        total = total * (ids != 0)[..., None]
    if wrong & {"dropout_before_norm", "dropout_twice"}:
        total = self.embed_dropout(total)
    ways = {
        "no_norm": lambda: total,
        "norm_of_each": lambda: norm(words) + norm(positions) + norm(segments),
        "norm_of_words": lambda: norm(words) + positions + segments,
        "norm_before_positions": lambda: norm(words + segments) + positions,
        "norm_before_segments": lambda: norm(words + positions) + segments,
        "norm_without_weights": lambda: F.layer_norm(total, total.shape[-1:], eps=norm.eps),
        "norm_without_bias": lambda: norm(total) - norm.bias,
        "norm_twice": lambda: norm(norm(total)),
        "norm_over_tokens": lambda: by_hand(total, norm, 1, 0),
        "norm_sample_variance": lambda: by_hand(total, norm, -1, 1),
    }
    return chosen(ways, wrong, lambda: norm(total))()


def by_hand(total: Tensor, norm, axis: int, correction: int) -> Tensor:
    """A layer norm written out, along another axis or of another variance."""
    centred = total - total.mean(axis, keepdim=True)
    spread = total.var(axis, keepdim=True, correction=correction).sqrt() + norm.eps
    return norm.weight * centred / spread + norm.bias
