"""BertSelfAttention.attention, Task 1.1, with each known mistake as a switch."""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor
from torch.nn import functional as F

from course.switches import chosen

ORDERS = map("".join, itertools.permutations("BHLW"))
AXES = [f"heads_permuted_{order}" for order in ORDERS if order not in ("BLHW", "BLWH")]
SLOTS = {
    "dropout": "no_dropout dropout_in_evaluation dropout_on_scores dropout_before_mask "
    "dropout_on_context dropout_on_result dropout_twice dropout_rate_in_code "
    "dropout_only_in_evaluation",
    "arguments": "key_query_swapped key_value_swapped value_not_used query_as_value query_for_key "
    "key_for_query query_value_swapped value_for_query value_for_key",
    "scale": "no_scale scale_by_width scale_multiplied scale_by_heads scale_by_hidden_size "
    "scale_by_length scale_by_axes scale_after_softmax scale_by_8 scale_by_batch "
    "scale_upside_down scale_of_hidden_width scale_negative scale_squared scale_of_the_result_too",
    "mask": "no_mask mask_wrong_sign mask_multiplied mask_inverted mask_inverted_to_infinity "
    "mask_over_queries mask_of_first_sentence mask_after_softmax mask_zeroed_after_softmax "
    "later_tokens_hidden earlier_tokens_hidden mask_alone",
    "product": "key_not_transposed",
    "softmax": "no_softmax softmax_over_queries softmax_over_heads softmax_over_sentences "
    "softmax_over_all log_softmax sigmoid relu tanh softmin softmax_twice exponential",
    "sum": "weights_transposed values_alone weights_returned weights_detached value_detached "
    "values_added query_added key_added weights_times_weights scores_returned query_returned "
    "key_returned",
    "merge": "heads_not_transposed heads_interleaved heads_transposed_otherwise heads_not_merged "
    "heads_left_apart heads_below_each_other heads_summed heads_averaged last_head_only "
    "first_head_only flat_from_1 flat",
    "result": "result_detached result_negative",
    "alone": " ".join(AXES),
}  # fmt: skip


def attention(wrong: frozenset[str], self, key, query, value, attention_mask) -> Tensor:
    """The function, with the mistakes in ``wrong``: (B, H, L, W) each and a mask → (B, L, D)."""
    key, query, value = arguments(wrong, key, query, value)
    mask = {
        "mask_over_queries": attention_mask.mT,
        "mask_of_first_sentence": attention_mask[:1],
    }
    mask = chosen(mask, wrong, attention_mask)
    scores = query @ (key if "key_not_transposed" in wrong else key.mT)  # (B, H, L, L)
    scores = at("dropout_before_mask", wrong, self, scaled(wrong, scores, key))
    scores = at("dropout_on_scores", wrong, self, masked(wrong, scores, mask))
    weights = weighted(wrong, scores)
    if "scale_after_softmax" in wrong:
        weights = weights / math.sqrt(key.size(-1))
    if "mask_after_softmax" in wrong:
        weights = weights + mask
    if "mask_zeroed_after_softmax" in wrong:
        weights = weights * (mask == 0)
    if not wrong & ELSEWHERE:
        weights = drop(wrong, self, weights)
    weights = weights.detach() if "weights_detached" in wrong else weights
    context = at(
        "dropout_on_context", wrong, self, summed(wrong, weights, scores, value, key, query)
    )
    result = merged(wrong, context, value.size(2))
    result = at("dropout_twice", wrong, self, at("dropout_on_result", wrong, self, result))
    if "scale_of_the_result_too" in wrong:
        result = result / math.sqrt(key.size(-1))
    if "result_negative" in wrong:
        result = -result
    return result.detach() if "result_detached" in wrong else result


def arguments(wrong: frozenset[str], k: Tensor, q: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    """Key, query and value, as they are mistaken for each other."""
    ways = {
        "key_query_swapped": (q, k, v),
        "key_value_swapped": (v, q, k),
        "query_value_swapped": (k, v, q),
        "value_not_used": (k, q, k),
        "query_as_value": (k, q, q),
        "query_for_key": (q, q, v),
        "key_for_query": (k, k, v),
        "value_for_query": (k, v, v),
        "value_for_key": (v, q, v),
    }
    return chosen(ways, wrong, (k, q, v))


ELSEWHERE = {
    "no_dropout", "dropout_on_scores", "dropout_before_mask", "dropout_on_context",
    "dropout_on_result",
}  # fmt: skip


def drop(wrong: frozenset[str], self, x: Tensor) -> Tensor:
    """Dropout of a tensor, in its mode and with its probability."""
    if "dropout_in_evaluation" in wrong:
        return F.dropout(x, self.dropout.p)
    if "dropout_only_in_evaluation" in wrong:
        return F.dropout(x, self.dropout.p, not self.training)
    return F.dropout(x, 0.1, self.training) if "dropout_rate_in_code" in wrong else self.dropout(x)


def at(place: str, wrong: frozenset[str], self, x: Tensor) -> Tensor:
    """The same where dropout acts in this place."""
    return self.dropout(x) if place in wrong else x


def scaled(wrong: frozenset[str], scores: Tensor, key: Tensor) -> Tensor:
    """Scores divided by √W, or by what is taken for it."""
    batch, heads, length, width = key.shape
    if "scale_upside_down" in wrong:
        return math.sqrt(width) / scores
    ways = {
        "no_scale": 1,
        "scale_after_softmax": 1,
        "scale_by_width": width,
        "scale_squared": width**2,
        "scale_multiplied": width**-0.5,
        "scale_by_heads": heads**0.5,
        "scale_by_hidden_size": (heads * width) ** 0.5,
        "scale_of_hidden_width": heads * width,
        "scale_by_length": length**0.5,
        "scale_by_batch": batch**0.5,
        "scale_by_axes": key.dim() ** 0.5,
        "scale_by_8": 8,
        "scale_negative": -(width**0.5),
    }
    return scores / chosen(ways, wrong, math.sqrt(width))


def masked(wrong: frozenset[str], scores: Tensor, mask: Tensor) -> Tensor:
    """Scores (B, H, L, L) with the mask added, or used otherwise."""
    length = scores.size(-1)
    later = torch.ones(length, scores.size(-2), dtype=torch.bool).triu(1)
    added = scores + mask
    ways = {
        "no_mask": lambda: scores,
        "mask_after_softmax": lambda: scores,
        "mask_zeroed_after_softmax": lambda: scores,
        "mask_wrong_sign": lambda: scores - mask,
        "mask_multiplied": lambda: scores * mask,
        "mask_inverted": lambda: scores.masked_fill(mask == 0, -1e9),
        "mask_inverted_to_infinity": lambda: scores.masked_fill(mask == 0, -math.inf),
        "mask_alone": lambda: torch.zeros_like(scores) + mask,
        "later_tokens_hidden": lambda: added.masked_fill(later, -1e20),
        "earlier_tokens_hidden": lambda: added.masked_fill(later.mT, -1e20),
    }
    return chosen(ways, wrong, lambda: added)()


def weighted(wrong: frozenset[str], scores: Tensor) -> Tensor:
    """The attention weights of scores, over the keys or another axis."""
    ways = {
        "no_softmax": lambda: scores,
        "softmax_over_queries": lambda: scores.softmax(-2),
        "softmax_over_heads": lambda: scores.softmax(1),
        "softmax_over_sentences": lambda: scores.softmax(0),
        "softmax_over_all": lambda: scores.flatten().softmax(0).view_as(scores),
        "softmax_twice": lambda: scores.softmax(-1).softmax(-1),
        "log_softmax": lambda: scores.log_softmax(-1),
        "softmin": lambda: F.softmin(scores, -1),
        "sigmoid": lambda: scores.sigmoid(),
        "relu": lambda: scores.relu(),
        "tanh": lambda: scores.tanh(),
        "exponential": lambda: scores.exp(),
    }
    return chosen(ways, wrong, lambda: scores.softmax(-1))()


def summed(wrong: frozenset[str], weights, scores, value, key, query) -> Tensor:
    """The weighted sum of the values: (B, H, L, W)."""
    context = weights @ (value.detach() if "value_detached" in wrong else value)
    ways = {
        "weights_transposed": lambda: weights.mT @ value,
        "values_alone": lambda: value,
        "weights_returned": lambda: weights,
        "scores_returned": lambda: scores,
        "query_returned": lambda: query,
        "key_returned": lambda: key,
        "weights_times_weights": lambda: weights @ weights,
        "values_added": lambda: context + value,
        "query_added": lambda: context + query,
        "key_added": lambda: context + key,
    }
    return chosen(ways, wrong, lambda: context)()


def merged(wrong: frozenset[str], x: Tensor, length: int) -> Tensor:
    """The heads side by side, (B, H, L, W) → (B, L, D), or otherwise."""
    ways = {
        "heads_not_transposed": lambda: x.reshape(x.size(0), length, -1),
        "heads_interleaved": lambda: x.permute(0, 2, 3, 1).flatten(2),
        "heads_transposed_otherwise": lambda: x.mT.reshape(x.size(0), length, -1),
        "heads_not_merged": lambda: x.transpose(1, 2),
        "heads_left_apart": lambda: x,
        "heads_below_each_other": lambda: x.flatten(1, 2),
        "heads_summed": lambda: x.sum(1),
        "heads_averaged": lambda: x.mean(1),
        "last_head_only": lambda: x[:, -1],
        "first_head_only": lambda: x[:, 0],
        "flat_from_1": lambda: x.transpose(1, 2).flatten(1),
        "flat": lambda: x.transpose(1, 2).flatten(),
    }
    for name in AXES:
        order = ["BHLW".index(axis) for axis in name.removeprefix("heads_permuted_")]
        ways[name] = lambda order=order: x.permute(order).flatten(2)
    return chosen(ways, wrong, lambda: x.transpose(1, 2).flatten(2))()
