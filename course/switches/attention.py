"""BertSelfAttention.attention, Task 1.1, with each known mistake as a switch."""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor
from torch.nn import functional as F

from course.switches import Switches, chosen, dropped

ELSEWHERE = {  # where dropout acts instead of on the attention weights
    "no_dropout", "dropout_on_scores", "dropout_before_mask", "dropout_on_context",
    "dropout_on_result",
}  # fmt: skip
ARGUMENTS = {  # what is taken for key, query and value
    "key_query_swapped": lambda k, q, v: (q, k, v),
    "key_value_swapped": lambda k, q, v: (v, q, k),
    "value_not_used": lambda k, q, v: (k, q, k),
    "query_as_value": lambda k, q, v: (k, q, q),
    "query_for_key": lambda k, q, v: (q, q, v),
    "key_for_query": lambda k, q, v: (k, k, v),
    "query_value_swapped": lambda k, q, v: (k, v, q),
    "value_for_query": lambda k, q, v: (k, v, v),
    "value_for_key": lambda k, q, v: (v, q, v),
}
SCALED = {  # scores, and sizes of the key: (B, H, L, W)
    "no_scale": lambda scores, size: scores,
    "scale_by_width": lambda scores, size: scores / size[3],
    "scale_multiplied": lambda scores, size: scores / size[3] ** -0.5,
    "scale_by_heads": lambda scores, size: scores / size[1] ** 0.5,
    "scale_by_hidden_size": lambda scores, size: scores / (size[1] * size[3]) ** 0.5,
    "scale_by_length": lambda scores, size: scores / size[2] ** 0.5,
    "scale_by_axes": lambda scores, size: scores / len(size) ** 0.5,
    "scale_after_softmax": lambda scores, size: scores,
    "scale_by_8": lambda scores, size: scores / 8,
    "scale_by_batch": lambda scores, size: scores / size[0] ** 0.5,
    "scale_upside_down": lambda scores, size: math.sqrt(size[3]) / scores,
    "scale_of_hidden_width": lambda scores, size: scores / (size[1] * size[3]),
    "scale_negative": lambda scores, size: -scores / size[3] ** 0.5,
    "scale_squared": lambda scores, size: scores / size[3] ** 2,
}
MASKED = {  # scores (B, H, L, L) with the mask added, or used otherwise
    "no_mask": lambda scores, mask: scores,
    "mask_wrong_sign": lambda scores, mask: scores - mask,
    "mask_multiplied": lambda scores, mask: scores * mask,
    "mask_inverted": lambda scores, mask: scores.masked_fill(mask == 0, -1e9),
    "mask_inverted_to_infinity": lambda scores, mask: scores.masked_fill(mask == 0, -math.inf),
    "mask_over_queries": lambda scores, mask: scores + mask.mT,
    "mask_of_first_sentence": lambda scores, mask: scores + mask[:1],
    "mask_after_softmax": lambda scores, mask: scores,
    "mask_zeroed_after_softmax": lambda scores, mask: scores,
    "later_tokens_hidden": lambda scores, mask: (scores + mask).masked_fill(later(scores), -1e20),
    "earlier_tokens_hidden": lambda scores, mask: (scores + mask).masked_fill(
        later(scores).mT, -1e20
    ),
    "mask_alone": lambda scores, mask: torch.zeros_like(scores) + mask,
    "mask_alone_zeros": lambda scores, mask: 0 * scores + mask,
}
WEIGHTS = {  # the attention weights of scores, over the keys or another axis
    "no_softmax": lambda scores: scores,
    "softmax_over_queries": lambda scores: scores.softmax(-2),
    "softmax_over_heads": lambda scores: scores.softmax(1),
    "softmax_over_sentences": lambda scores: scores.softmax(0),
    "softmax_over_all": lambda scores: scores.flatten().softmax(0).view_as(scores),
    "log_softmax": lambda scores: scores.log_softmax(-1),
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "tanh": torch.tanh,
    "softmin": lambda scores: F.softmin(scores, -1),
    "softmax_twice": lambda scores: scores.softmax(-1).softmax(-1),
    "exponential": torch.exp,
}
SUMS = {  # the weighted sum of the values: (B, H, L, W)
    "weights_transposed": lambda w, scores, k, q, v: w.mT @ v,
    "values_alone": lambda w, scores, k, q, v: v,
    "weights_returned": lambda w, scores, k, q, v: w,
    "weights_detached": lambda w, scores, k, q, v: w.detach() @ v,
    "value_detached": lambda w, scores, k, q, v: w @ v.detach(),
    "values_added": lambda w, scores, k, q, v: w @ v + v,
    "query_added": lambda w, scores, k, q, v: w @ v + q,
    "key_added": lambda w, scores, k, q, v: w @ v + k,
    "weights_times_weights": lambda w, scores, k, q, v: w @ w,
    "scores_returned": lambda w, scores, k, q, v: scores,
    "query_returned": lambda w, scores, k, q, v: q,
    "key_returned": lambda w, scores, k, q, v: k,
}
MERGED = {  # the heads side by side, (B, H, L, W) → (B, L, D), or otherwise
    "heads_not_transposed": lambda x, length: x.reshape(x.size(0), length, -1),
    "heads_interleaved": lambda x, length: x.permute(0, 2, 3, 1).flatten(2),
    "heads_transposed_otherwise": lambda x, length: x.mT.reshape(x.size(0), length, -1),
    "heads_not_merged": lambda x, length: x.transpose(1, 2),
    "heads_left_apart": lambda x, length: x,
    "heads_below_each_other": lambda x, length: x.flatten(1, 2),
    "heads_summed": lambda x, length: x.sum(1),
    "heads_averaged": lambda x, length: x.mean(1),
    "last_head_only": lambda x, length: x[:, -1],
    "first_head_only": lambda x, length: x[:, 0],
    "flat_from_1": lambda x, length: x.transpose(1, 2).flatten(1),
    "flat": lambda x, length: x.transpose(1, 2).flatten(),
}
PERMUTED = {
    "heads_permuted_" + "".join("BHLW"[axis] for axis in axes): axes
    for axes in itertools.permutations(range(4))
    if axes not in ((0, 2, 1, 3), (0, 2, 3, 1))  # correct, and heads_interleaved
}
SLOTS = {
    "dropout": "no_dropout dropout_in_evaluation dropout_on_scores dropout_before_mask "
    "dropout_on_context dropout_on_result dropout_twice dropout_rate_in_code "
    "dropout_only_in_evaluation".split(),
    "arguments": ARGUMENTS,
    "scale": [*SCALED, "scale_of_the_result_too"],
    "mask": MASKED,
    "softmax": WEIGHTS,
    "sum": SUMS,
    "merge": MERGED,
    "result": ["result_detached", "result_negative"],
    "alone": PERMUTED,
}


def later(scores: Tensor) -> Tensor:
    """Which keys come after the query: (L, L)."""
    return torch.ones(scores.shape[-2:], dtype=torch.bool).mT.triu(1)


def attention(wrong: Switches, self, key, query, value, attention_mask) -> Tensor:
    """The function, with the mistakes in ``wrong``: (B, H, L, W) each and a mask → (B, L, D)."""

    def drop_at(place: str, x: Tensor) -> Tensor:
        return self.dropout(x) if place in wrong else x

    root = math.sqrt(key.size(-1))
    key, query, value = chosen(ARGUMENTS, wrong, lambda k, q, v: (k, q, v))(key, query, value)
    scores = query @ key.mT  # (B, H, L, W) @ (B, H, W, L) → (B, H, L, L)
    scores = chosen(SCALED, wrong, lambda scores, size: scores / root)(scores, key.shape)
    scores = drop_at("dropout_before_mask", scores)
    scores = chosen(MASKED, wrong, lambda scores, mask: scores + mask)(scores, attention_mask)
    scores = drop_at("dropout_on_scores", scores)
    weights = chosen(WEIGHTS, wrong, lambda scores: scores.softmax(-1))(scores)
    if "scale_after_softmax" in wrong:
        weights = weights / root
    if "mask_after_softmax" in wrong:
        weights = weights + attention_mask
    if "mask_zeroed_after_softmax" in wrong:
        weights = weights * (attention_mask == 0)
    if not wrong & ELSEWHERE:
        weights = dropped(wrong, self.dropout, weights)
    context = chosen(SUMS, wrong, lambda w, scores, k, q, v: w @ v)(
        weights, scores, key, query, value
    )
    context, length = drop_at("dropout_on_context", context), value.size(2)
    result = chosen(MERGED, wrong, lambda x, length: x.transpose(1, 2).flatten(2))(context, length)
    if axes := chosen(PERMUTED, wrong, None):
        result = context.permute(axes).flatten(2)
    result = drop_at("dropout_twice", drop_at("dropout_on_result", result))
    if "scale_of_the_result_too" in wrong:
        result = result / root
    if "result_negative" in wrong:
        result = -result
    return result.detach() if "result_detached" in wrong else result
