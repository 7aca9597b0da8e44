"""BertLayer.forward, Task 1.3, with each known mistake as a switch.

In the tables ``x`` is what the first add & norm gives, ``h`` the input, ``a`` what attention gives,
``e`` the expanded states, ``y`` the result; ``p`` has the modules of one add & norm.
"""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import Tensor
from torch.nn import functional as F

from course.switches import Switches, chosen

ATTENDED = {  # what attention gives, or what is taken for it
    "mask_made_again": lambda self, h, mask: self.self_attention(h, (1.0 - mask) * -10000.0),
    "mask_not_given": lambda self, h, mask: self.self_attention(h, torch.zeros_like(mask)),
    "mask_negative": lambda self, h, mask: self.self_attention(h, -mask),
    "no_attention": lambda self, h, mask: h,
    "attention_twice": lambda self, h, mask: self.self_attention(
        self.self_attention(h, mask), mask
    ),
    "norm_first": lambda self, h, mask: self.self_attention(self.attention_layer_norm(h), mask),
    "projections_skipped": lambda self, h, mask: self.self_attention.attention(h, h, h, mask),
    "attentions_dense_twice": lambda self, h, mask: self.attention_dense(
        self.self_attention(h, mask)
    ),
    "dropout_after_attention": lambda self, h, mask: self.attention_dropout(
        self.self_attention(h, mask)
    ),
    "attention_added_twice": lambda self, h, mask: self.self_attention(h, mask) + h,
    "attention_detached": lambda self, h, mask: self.self_attention(h, mask).detach(),
}
FIRST = {  # the first add & norm
    "attention_not_added": lambda p, h, a: a,
    "first_residual_missing": lambda p, h, a: p.norm(p.drop(p.dense(a))),
    "residual_and_result_swapped": lambda p, h, a: p.add_norm(a, h),
    "first_residual_is_the_result": lambda p, h, a: p.add_norm(a, a),
    "first_residual_subtracted": lambda p, h, a: p.norm(p.drop(p.dense(a)) - h),
    "first_residual_multiplied": lambda p, h, a: p.norm(p.drop(p.dense(a)) * h),
    "attention_not_used": lambda p, h, a: p.add_norm(h, h),
    "first_norm_missing": lambda p, h, a: h + p.drop(p.dense(a)),
    "no_dropout_first": lambda p, h, a: p.norm(h + p.dense(a)),
    "first_sublayer_past_add_norm": lambda p, h, a: p.norm(h + a),
    "activation_after_attention": lambda p, h, a: p.norm(h + p.drop(p.gelu(p.dense(a)))),
    "first_dense_skipped": lambda p, h, a: p.norm(h + p.drop(a)),
    "first_add_norm_twice": lambda p, h, a: p.add_norm(h, p.add_norm(h, a)),
    "first_output_not_added": lambda p, h, a: p.norm(h),
    "first_sublayer_not_used": lambda p, h, a: h,
}
MODULES = {  # the modules of the two add & norms: linear layer, dropout, norm
    "same_modules_twice": lambda first, last: (first, first),
    "attentions_norm_twice": lambda first, last: (first, (*last[:2], first[2])),
    "last_norm_twice": lambda first, last: ((*first[:2], last[2]), last),
    "norms_swapped": lambda first, last: ((*first[:2], last[2]), (*last[:2], first[2])),
    "dense_of_attention_twice": lambda first, last: (first, (first[0], *last[1:])),
    "modules_swapped": lambda first, last: (last, first),
    "arguments_swapped": lambda first, last: ((first[0], first[2], first[1]), last),
    "arguments_swapped_again": lambda first, last: (first, (last[0], last[2], last[1])),
}
EXPANDED = {
    "feed_forward_of_input": lambda self, x, h, a: self.interm_dense(h),
    "feed_forward_of_attention": lambda self, x, h, a: self.interm_dense(a),
    "interm_dense_skipped": lambda self, x, h, a: x,
    "feed_forward_detached": lambda self, x, h, a: self.interm_dense(x.detach()),
    "feed_forward_detached_behind": lambda self, x, h, a: self.interm_dense(x).detach(),
}
ACTIVATED = {
    "no_gelu": lambda self, e: e,
    "relu": lambda self, e: F.relu(e),
    "sigmoid_gelu": lambda self, e: e * torch.sigmoid(1.702 * e),
    "tanh_gelu": lambda self, e: F.gelu(e, approximate="tanh"),
    "gelu_twice": lambda self, e: self.interm_af(self.interm_af(e)),
    "gelu_at_the_end": lambda self, e: self.interm_af(e),
    "gelu_before_dense": lambda self, e: self.out_dense(e),
    "gelu_after_second_projection": lambda self, e: e,
    "tanh": lambda self, e: torch.tanh(e),
    "silu": lambda self, e: F.silu(e),
    "sigmoid": lambda self, e: torch.sigmoid(e),
    "dropout_in_feed_forward": lambda self, e: self.out_dropout(self.interm_af(e)),
}
CARRIED = {  # past the feed-forward network, by the second residual connection
    "second_residual_from_attention": lambda x, e, h, a: a,
    "second_residual_from_input": lambda x, e, h, a: h,
    "residual_overwritten": lambda x, e, h, a: e,
    "second_residual_detached": lambda x, e, h, a: x.detach(),
}
SECOND = {  # the second add & norm, of what is carried and of the expanded states
    "last_norm_missing": lambda p, x, e: x + p.drop(p.dense(e)),
    "no_dropout_second": lambda p, x, e: p.norm(x + p.dense(e)),
    "second_residual_subtracted": lambda p, x, e: p.norm(p.drop(p.dense(e)) - x),
    "second_residual_multiplied": lambda p, x, e: p.norm(p.drop(p.dense(e)) * x),
    "second_output_not_added": lambda p, x, e: p.norm(x),
    "second_residual_twice": lambda p, x, e: p.norm(p.drop(p.dense(e)) + 2 * x),
    "second_add_norm_missing": lambda p, x, e: p.dense(e),
    "second_add_norm_missing_dropped": lambda p, x, e: p.drop(p.dense(e)),
    "second_residual_missing": lambda p, x, e: p.norm(p.drop(p.dense(e))),
    "tensors_swapped_the_second_time": lambda p, x, e: p.add_norm(e, x),
    "tensors_swapped": lambda p, x, e: p.add_norm(e, x),
    "no_feed_forward": lambda p, x, e: x,
}
SECOND_WITH_GELU = SECOND | {
    "gelu_after_second_projection": lambda p, x, e: p.norm(x + p.drop(p.gelu(p.dense(e))))
}
ENDS = {
    "dropout_at_the_end": lambda self, y, x, h, a: self.out_dropout(y),
    "residual_after_the_last_norm": lambda self, y, x, h, a: y + x,
    "input_added_at_the_end": lambda self, y, x, h, a: y + h,
    "attention_returned": lambda self, y, x, h, a: a,
    "attention_returned_projected": lambda self, y, x, h, a: self.attention_dropout(
        self.attention_dense(a)
    ),
    "input_returned": lambda self, y, x, h, a: h,
    "normed_returned": lambda self, y, x, h, a: x,
    "result_detached": lambda self, y, x, h, a: y.detach(),
    "last_norm_again": lambda self, y, x, h, a: self.out_layer_norm(y),
}
SLOTS = {
    "attention": ATTENDED, "first": FIRST, "modules": MODULES, "expanded": EXPANDED,
    "activation": ACTIVATED, "second": [*(SECOND | CARRIED), "last_dense_twice"], "end": ENDS,
    "written": ["no_dropout"],
}  # fmt: skip


def forward(wrong: Switches, self, hidden_states, attention_mask) -> Tensor:
    """The function, with the mistakes in ``wrong``: (B, L, D) and a mask → (B, L, D)."""
    h = hidden_states
    first, last = (
        (self.attention_dense, self.attention_dropout, self.attention_layer_norm),
        (self.out_dense, self.out_dropout, self.out_layer_norm),
    )
    first, last = chosen(MODULES, wrong, lambda first, last: (first, last))(first, last)
    a = chosen(ATTENDED, wrong, lambda self, h, mask: self.self_attention(h, mask))(
        self, h, attention_mask
    )
    p = add_norm_of(wrong, self, *first)
    given = (a, h) if "tensors_swapped" in wrong else (h, a)
    x = chosen(FIRST, wrong, lambda p, h, a: p.add_norm(h, a))(p, *given)
    e = chosen(EXPANDED, wrong, lambda self, x, h, a: self.interm_dense(x))(self, x, h, a)
    e = chosen(ACTIVATED, wrong, lambda self, e: self.interm_af(e))(self, e)
    p = add_norm_of(wrong, self, *last)
    if "last_dense_twice" in wrong:
        e = self.out_dense(e)
    carried = chosen(CARRIED, wrong, lambda x, e, h, a: x)(x, e, h, a)
    y = chosen(SECOND_WITH_GELU, wrong, lambda p, x, e: p.add_norm(x, e))(p, carried, e)
    if "gelu_at_the_end" in wrong:
        y = self.interm_af(y)
    return chosen(ENDS, wrong, lambda self, y, x, h, a: y)(self, y, x, h, a)


def add_norm_of(wrong: Switches, self, dense, drop, norm) -> SimpleNamespace:
    """The modules of an add & norm, and the function: the model's, or written out, no dropout."""

    def add_norm(input: Tensor, output: Tensor) -> Tensor:
        if "no_dropout" in wrong:
            return norm(input + dense(output))
        return self.add_norm(input, output, dense, drop, norm)

    modules = {"dense": dense, "drop": drop, "norm": norm, "gelu": self.interm_af}
    return SimpleNamespace(add_norm=add_norm, **modules)
