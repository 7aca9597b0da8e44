"""BertModel.embed, Task 1.4, with each known mistake as a switch."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from course.switches import Switches, chosen, dropped
from course.switches.add_norm import by_hand

ELSEWHERE = {"no_dropout", "dropout_before_norm", "dropout_on_words"}  # not on the result
WORDS = {  # of their embeddings (B, L, D)
    "no_words": lambda self, x: torch.zeros_like(x),
    "words_scaled": lambda self, x: x * math.sqrt(x.size(-1)),
    "words_detached": lambda self, x: x.detach(),
    "words_twice": lambda self, x: 2 * x,
    "words_normalised_too": lambda self, x: self.embed_layer_norm(x),
}
POSITIONS = {  # of all ids (1, longest), and the ids: (1, L) or (B, L)
    "positions_from_one": lambda every, ids: every[:, 1 : ids.size(1) + 1],
    "positions_from_the_end": lambda every, ids: every[:, : ids.size(1)].flip(1),
    "position_is_the_sentence": lambda every, ids: every[:, : ids.size(0)].T,
    "same_position": lambda every, ids: every[:, :1],
    "positions_of_real_pieces": lambda every, ids: (ids != 0).cumsum(1) * (ids != 0),
    "positions_of_real_pieces_from_zero": lambda every, ids: (
        ((ids != 0).cumsum(1) - 1).clamp(min=0) * (ids != 0)
    ),
}
SEGMENTS = {  # of the ids, and the segments as they were given, or None
    "segments_ignored": lambda ids, given: torch.zeros_like(ids),
    "segments_of_one": lambda ids, given: torch.ones_like(ids) if given is None else given,
    "segments_of_mask": lambda ids, given: (ids != 0).long() if given is None else given,
}
SUMS = {  # of words, positions and segments
    "multiplied": lambda w, p, s: w * p * s,
    "multiplied_positions": lambda w, p, s: w * p + s,
    "multiplied_segments": lambda w, p, s: w + p * s,
}
NORMS = {  # of the norm, words, positions and segments
    "norm_of_each": lambda norm, w, p, s: norm(w) + norm(p) + norm(s),
    "norm_of_words": lambda norm, w, p, s: norm(w) + p + s,
    "norm_before_positions": lambda norm, w, p, s: norm(w + s) + p,
    "norm_before_segments": lambda norm, w, p, s: norm(w + p) + s,
}
NORMS_OF_SUM = {
    "no_norm": lambda norm, total: total,
    "norm_without_weights": lambda norm, total: F.layer_norm(total, total.shape[-1:], eps=norm.eps),
    "norm_twice": lambda norm, total: norm(norm(total)),
    "norm_over_tokens": lambda norm, total: by_hand(total, norm, 1),
    "norm_without_bias": lambda norm, total: norm(total) - norm.bias,
    "norm_sample_variance": lambda norm, total: by_hand(total, norm, -1, correction=1),
}
SLOTS = {
    "dropout": "no_dropout dropout_before_norm dropout_on_words dropout_in_evaluation "
    "dropout_only_in_evaluation dropout_rate_in_code dropout_twice".split(),
    "words": WORDS,
    "positions": ["no_positions", *POSITIONS, "positions_of_words", "positions_twice"],
    "segments": ["no_segments", "no_segments_unless_given", *SEGMENTS, "segments_of_positions"]
    + ["segments_twice"],
    "sum": [*SUMS, "positions_subtracted", "segments_subtracted"],
    "norm": [*NORMS, *NORMS_OF_SUM],
    "padding": ["padding_zeroed", "padding_zeroed_at_the_end"],
    "result": ["result_detached", "result_transposed"],
}


def embed(wrong: Switches, self, input_ids, token_type_ids=None) -> Tensor:
    """The function, with the mistakes in ``wrong``: ids (B, L) → (B, L, D)."""
    real = (input_ids != 0)[..., None]  # (B, L, 1)
    words = chosen(WORDS, wrong, lambda self, x: x)(self, self.word_embedding(input_ids))
    if "dropout_on_words" in wrong:
        words = self.embed_dropout(words)
    positions = positions_of(wrong, self, input_ids)
    segments = segments_of(wrong, self, input_ids, token_type_ids)
    if "positions_subtracted" in wrong:
        positions = -positions
    if "segments_subtracted" in wrong:
        segments = -segments
    total = chosen(SUMS, wrong, lambda w, p, s: w + p + s)(words, positions, segments)
    if "padding_zeroed" in wrong:
        total = total * real
    if wrong & {"dropout_before_norm", "dropout_twice"}:
        total = self.embed_dropout(total)
    norm = self.embed_layer_norm
    result = chosen(NORMS_OF_SUM, wrong, lambda norm, total: norm(total))(norm, total)
    if norm_early := chosen(NORMS, wrong, None):
        result = norm_early(norm, words, positions, segments)
    if "padding_zeroed_at_the_end" in wrong:
        result = result * real
    if not wrong & ELSEWHERE:
        result = dropped(wrong, self.embed_dropout, result)
    if "result_transposed" in wrong:
        result = result.transpose(0, 1)
    return result.detach() if "result_detached" in wrong else result


def positions_of(wrong: Switches, self, ids: Tensor) -> Tensor:
    """The embeddings of the positions: (1, L, D) or (B, L, D)."""
    if "positions_of_words" in wrong:
        return self.word_embedding(self.position_ids[:, : ids.size(1)])
    usual = lambda every, ids: every[:, : ids.size(1)]  # noqa: E731
    embeddings = self.pos_embedding(chosen(POSITIONS, wrong, usual)(self.position_ids, ids))
    if "no_positions" in wrong:
        return torch.zeros_like(embeddings)
    return 2 * embeddings if "positions_twice" in wrong else embeddings


def segments_of(wrong: Switches, self, ids: Tensor, given: Tensor | None) -> Tensor:
    """The embeddings of the segments: (B, L, D)."""
    zeros = torch.zeros_like(ids)
    kinds = chosen(SEGMENTS, wrong, lambda ids, given: zeros if given is None else given)(
        ids, given
    )
    if "segments_of_positions" in wrong:
        return self.pos_embedding(kinds)
    embeddings = self.tk_type_embedding(kinds)
    if "no_segments" in wrong or ("no_segments_unless_given" in wrong and given is None):
        return torch.zeros_like(embeddings)
    return 2 * embeddings if "segments_twice" in wrong else embeddings
