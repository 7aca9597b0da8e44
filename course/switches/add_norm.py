"""BertLayer.add_norm, Task 1.2, with each known mistake as a switch."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from course.switches import chosen

SLOTS = {
    "dropout": "no_dropout dropout_in_evaluation dropout_on_input dropout_on_sum "
    "dropout_after_norm dropout_before_dense layers_own_dropout dropout_twice "
    "dropout_only_in_evaluation",
    "dense": "dense_skipped dense_of_sum dense_of_both dense_twice always_attentions_modules "
    "always_last_dense input_output_swapped",
    "activation": "activation_added relu_added tanh_added",
    "residual": "no_residual residual_of_output residual_subtracted output_subtracted "
    "residual_twice output_not_added input_detached residual_after_norm_too multiplied",
    "norm": "no_norm norm_before_residual norm_of_input both_normalised input_normalised_too "
    "output_normalised_too norm_twice norm_without_weights norm_sample_variance norm_over_tokens "
    "norm_over_all always_attentions_norm always_last_norm norm_without_bias norm_without_root",
    "result": "result_detached",
}  # fmt: skip


def add_norm(wrong: frozenset[str], self, input, output, dense_layer, dropout, ln_layer) -> Tensor:
    """The function, with the mistakes in ``wrong``: (B, L, D) and (B, L, D or I) → (B, L, D)."""
    if "input_output_swapped" in wrong:
        input, output = output, input
    dense = {
        "always_attentions_modules": self.attention_dense,
        "always_last_dense": self.out_dense,
    }
    dense = chosen(dense, wrong, dense_layer)
    drop = dropout_of(wrong, self, dropout)
    if "dropout_before_dense" in wrong:
        output = drop(output)
    came = output
    if not wrong & {"dense_skipped", "dense_of_sum"}:
        output = dense(output)
    if "dense_twice" in wrong:
        output = dense(output)
    activations = {"activation_added": F.gelu, "relu_added": F.relu, "tanh_added": torch.tanh}
    output = chosen(activations, wrong, lambda x: x)(output)
    if "dense_of_both" in wrong:
        input = dense(input)
    if not wrong & ELSEWHERE:
        output = drop(output)
    if "dropout_on_input" in wrong:
        input = drop(input)
    return normed(wrong, self, residual(wrong, input, came, output), input, drop, dense, ln_layer)


ELSEWHERE = {
    "no_dropout", "dropout_on_input", "dropout_on_sum", "dropout_after_norm",
    "dropout_before_dense", "dense_of_sum",
}  # fmt: skip


def dropout_of(wrong: frozenset[str], self, dropout):
    """The dropout that acts."""
    if "dropout_in_evaluation" in wrong:
        return lambda x: F.dropout(x, dropout.p)
    if "dropout_only_in_evaluation" in wrong:
        return lambda x: F.dropout(x, dropout.p, not self.training)
    return self.attention_dropout if "layers_own_dropout" in wrong else dropout


def residual(wrong: frozenset[str], input: Tensor, came: Tensor, output: Tensor) -> tuple:
    """The two terms of the sum; ``came``: the output as it was given."""
    ways = {
        "no_residual": lambda: (torch.zeros_like(output), output),
        "residual_of_output": lambda: (came, output),
        "residual_subtracted": lambda: (input, -output),
        "output_subtracted": lambda: (-input, output),
        "residual_twice": lambda: (2 * input, output),
        "output_not_added": lambda: (input, torch.zeros_like(input)),
        "input_detached": lambda: (input.detach(), output),
        "multiplied": lambda: (input * output, torch.zeros_like(input)),
    }
    return chosen(ways, wrong, lambda: (input, output))()


def normed(wrong: frozenset[str], self, terms: tuple, input, drop, dense, ln_layer) -> Tensor:
    """The norm of the sum of two terms."""
    norms = {
        "always_attentions_modules": self.attention_layer_norm,
        "always_attentions_norm": self.attention_layer_norm,
        "always_last_norm": self.out_layer_norm,
    }
    norm = chosen(norms, wrong, ln_layer)
    first, second = terms
    if wrong & {"norm_of_input", "both_normalised", "input_normalised_too"}:
        first = norm(first)
    if wrong & {"norm_before_residual", "both_normalised", "output_normalised_too"}:
        second = norm(second)
    total = first + second
    if "dense_of_sum" in wrong:
        total = drop(dense(total))
    if "dropout_on_sum" in wrong:
        total = drop(total)
    ways = {
        "no_norm": lambda: total,
        "norm_before_residual": lambda: total,
        "norm_of_input": lambda: total,
        "both_normalised": lambda: total,
        "norm_twice": lambda: norm(norm(total)),
        "norm_without_weights": lambda: F.layer_norm(total, total.shape[-1:], eps=norm.eps),
        "norm_without_bias": lambda: norm(total) - norm.bias,
        "norm_without_root": lambda: by_hand(total, norm, -1, power=1),
        "norm_sample_variance": lambda: by_hand(total, norm, -1, correction=1),
        "norm_over_tokens": lambda: by_hand(total, norm, 1),
        "norm_over_all": lambda: by_hand(total, norm, (0, 1, 2)),
    }
    result = chosen(ways, wrong, lambda: norm(total))()
    if wrong & {"dropout_after_norm", "dropout_twice"}:
        result = drop(result)
    if "residual_after_norm_too" in wrong:
        result = result + input
    return result.detach() if "result_detached" in wrong else result


def by_hand(total: Tensor, norm, axis, correction: int = 0, power: float = 0.5) -> Tensor:
    """A layer norm written out, along another axis or of another variance."""
    centred = total - total.mean(axis, keepdim=True)
    spread = total.var(axis, keepdim=True, correction=correction) ** power + norm.eps
    return norm.weight * centred / spread + norm.bias
