"""BertLayer.forward, Task 1.3, with each known mistake as a switch."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from course.switches import chosen

WRITTEN_OUT = {
    "written": "no_dropout no_dropout_first no_dropout_second"
}  # add & norm, without add_norm: known by the whole layer
SLOTS = {
    "attention": "mask_made_again mask_not_given mask_negative no_attention attention_twice "
    "norm_first projections_skipped attentions_dense_twice dropout_after_attention "
    "attention_added_twice attention_detached",
    "first": "attention_not_added first_residual_missing residual_and_result_swapped "
    "first_residual_is_the_result first_residual_subtracted first_residual_multiplied "
    "attention_not_used first_norm_missing activation_after_attention first_dense_skipped "
    "first_add_norm_twice",
    "modules": "same_modules_twice attentions_norm_twice last_norm_twice norms_swapped "
    "dense_of_attention_twice modules_swapped arguments_swapped arguments_swapped_again",
    "expanded": "feed_forward_of_input feed_forward_of_attention interm_dense_skipped "
    "feed_forward_detached",
    "activation": "no_gelu relu sigmoid_gelu tanh_gelu gelu_twice gelu_at_the_end "
    "gelu_before_dense gelu_after_second_projection tanh silu sigmoid dropout_in_feed_forward",
    "second": "last_norm_missing second_residual_subtracted second_residual_multiplied "
    "second_output_not_added second_residual_twice second_add_norm_missing "
    "second_residual_missing second_residual_from_attention second_residual_from_input "
    "residual_overwritten tensors_swapped_the_second_time last_dense_twice tensors_swapped "
    "no_feed_forward second_residual_detached",
    "end": "dropout_at_the_end residual_after_the_last_norm input_added_at_the_end "
    "attention_returned input_returned normed_returned result_detached last_norm_again",
}  # fmt: skip


def forward(wrong: frozenset[str], self, hidden_states, attention_mask) -> Tensor:
    """The function, with the mistakes in ``wrong``: (B, L, D) and a mask → (B, L, D)."""
    first, last = modules(wrong, self)
    attended = attention(wrong, self, hidden_states, attention_mask)
    normed = first_half(wrong, self, hidden_states, attended, first)
    if "no_feed_forward" in wrong:
        return normed
    source = {"feed_forward_of_input": hidden_states, "feed_forward_of_attention": attended}
    source = chosen(source, wrong, normed)
    if "feed_forward_detached" in wrong:
        source = source.detach()
    expanded = source if "interm_dense_skipped" in wrong else self.interm_dense(source)
    expanded = activated(wrong, self, expanded)
    if wrong & {"last_dense_twice", "gelu_before_dense"}:
        expanded = self.out_dense(expanded)
    carried = {
        "second_residual_from_attention": attended,
        "second_residual_from_input": hidden_states,
        "residual_overwritten": expanded,
        "second_residual_detached": normed.detach(),
    }
    carried = chosen(carried, wrong, normed)
    result = second_half(wrong, self, carried, expanded, last)
    if "dropout_at_the_end" in wrong:
        result = self.out_dropout(result)
    if "gelu_at_the_end" in wrong:
        result = self.interm_af(result)
    if "last_norm_again" in wrong:
        result = self.out_layer_norm(result)
    added = {"residual_after_the_last_norm": normed, "input_added_at_the_end": hidden_states}
    result = result + chosen(added, wrong, 0)
    returned = {
        "attention_returned": attended,
        "input_returned": hidden_states,
        "normed_returned": normed,
    }
    result = chosen(returned, wrong, result)
    return result.detach() if "result_detached" in wrong else result


def attention(wrong: frozenset[str], self, hidden: Tensor, mask: Tensor) -> Tensor:
    """What attention gives, or what is taken for it."""
    masks = {
        "mask_made_again": (1.0 - mask) * -10000.0,
        "mask_not_given": torch.zeros_like(mask),
        "mask_negative": -mask,
    }
    mask = chosen(masks, wrong, mask)
    if "no_attention" in wrong:
        return hidden
    if "projections_skipped" in wrong:
        return self.self_attention.attention(hidden, hidden, hidden, mask)
    source = self.attention_layer_norm(hidden) if "norm_first" in wrong else hidden
    attended = self.self_attention(source, mask)
    if "attention_twice" in wrong:
        attended = self.self_attention(attended, mask)
    if "attentions_dense_twice" in wrong:
        attended = self.attention_dense(attended)
    if "dropout_after_attention" in wrong:
        attended = self.attention_dropout(attended)
    if "attention_added_twice" in wrong:
        attended = attended + hidden
    return attended.detach() if "attention_detached" in wrong else attended


def modules(wrong: frozenset[str], self) -> tuple[tuple, tuple]:
    """The modules of the two add & norms: linear layer, dropout, norm."""
    first = (self.attention_dense, self.attention_dropout, self.attention_layer_norm)
    last = (self.out_dense, self.out_dropout, self.out_layer_norm)
    ways = {
        "same_modules_twice": (first, first),
        "modules_swapped": (last, first),
        "attentions_norm_twice": (first, (*last[:2], first[2])),
        "last_norm_twice": ((*first[:2], last[2]), last),
        "norms_swapped": ((*first[:2], last[2]), (*last[:2], first[2])),
        "dense_of_attention_twice": (first, (first[0], *last[1:])),
        "arguments_swapped": ((first[0], first[2], first[1]), last),
        "arguments_swapped_again": (first, (last[0], last[2], last[1])),
    }
    return chosen(ways, wrong, (first, last))


def add_norm(wrong: frozenset[str], self, which: str, input, output, layers: tuple) -> Tensor:
    """Add & norm by the model's function, or written out without dropout."""
    without = f"no_dropout_{which}"
    if wrong & {"no_dropout", without}:
        dense, _, norm = layers
        return norm(input + dense(output))
    return self.add_norm(input, output, *layers)


def first_half(wrong: frozenset[str], self, hidden, attended, layers: tuple) -> Tensor:
    """The first add & norm, after attention."""
    dense, dropout, norm = layers
    if "attention_not_added" in wrong:
        return attended
    ways = {
        "first_residual_missing": lambda: norm(dropout(dense(attended))),
        "attention_not_used": lambda: self.add_norm(hidden, hidden, *layers),
        "first_norm_missing": lambda: hidden + dropout(dense(attended)),
        "first_dense_skipped": lambda: norm(hidden + dropout(attended)),
        "first_residual_subtracted": lambda: norm(dropout(dense(attended)) - hidden),
        "first_residual_multiplied": lambda: norm(dropout(dense(attended)) * hidden),
        "activation_after_attention": lambda: norm(
            hidden + dropout(self.interm_af(dense(attended)))
        ),
    }
    if made := chosen(ways, wrong, None):
        return made()
    if wrong & {"residual_and_result_swapped", "tensors_swapped"}:
        hidden, attended = attended, hidden
    if "first_residual_is_the_result" in wrong:
        hidden = attended
    normed = add_norm(wrong, self, "first", hidden, attended, layers)
    return (
        add_norm(wrong, self, "first", hidden, normed, layers)
        if "first_add_norm_twice" in wrong
        else normed
    )


def activated(wrong: frozenset[str], self, x: Tensor) -> Tensor:
    """The activation function of the feed-forward network."""
    if "gelu_before_dense" in wrong or "gelu_after_second_projection" in wrong:
        return x
    ways = {
        "no_gelu": lambda: x,
        "gelu_at_the_end": lambda: self.interm_af(x),
        "relu": lambda: F.relu(x),
        "silu": lambda: F.silu(x),
        "tanh": lambda: torch.tanh(x),
        "sigmoid": lambda: torch.sigmoid(x),
        "sigmoid_gelu": lambda: x * torch.sigmoid(1.702 * x),
        "tanh_gelu": lambda: F.gelu(x, approximate="tanh"),
        "gelu_twice": lambda: self.interm_af(self.interm_af(x)),
        "dropout_in_feed_forward": lambda: self.out_dropout(self.interm_af(x)),
    }
    return chosen(ways, wrong, lambda: self.interm_af(x))()


def second_half(wrong: frozenset[str], self, carried, expanded, layers: tuple) -> Tensor:
    """The second add & norm, after the feed-forward network."""
    dense, dropout, norm = layers
    if "second_add_norm_missing" in wrong:
        return dense(expanded)
    ways = {
        "second_residual_missing": lambda: norm(dropout(dense(expanded))),
        "second_residual_subtracted": lambda: norm(dropout(dense(expanded)) - carried),
        "second_residual_multiplied": lambda: norm(dropout(dense(expanded)) * carried),
        "second_residual_twice": lambda: norm(dropout(dense(expanded)) + 2 * carried),
        "second_output_not_added": lambda: norm(carried),
        "last_norm_missing": lambda: carried + dropout(dense(expanded)),
        "gelu_after_second_projection": lambda: norm(
            carried + dropout(self.interm_af(dense(expanded)))
        ),
    }
    if made := chosen(ways, wrong, None):
        return made()
    if wrong & {"tensors_swapped", "tensors_swapped_the_second_time"}:
        carried, expanded = expanded, carried
    return add_norm(wrong, self, "second", carried, expanded, layers)
