"""BertLayer.add_norm, Task 1.2, with each known mistake as a switch."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from course.switches import Switches, chosen, dropped

ACTIVATIONS = {"activation_added": F.gelu, "relu_added": F.relu, "tanh_added": torch.tanh}
TERMS = {  # of the sum: of the input, the output, and the output as it was given
    "no_residual": lambda input, output, came: (torch.zeros_like(output), output),
    "residual_of_output": lambda input, output, came: (came, output),
    "residual_subtracted": lambda input, output, came: (input, -output),
    "output_subtracted": lambda input, output, came: (-input, output),
    "residual_twice": lambda input, output, came: (2 * input, output),
    "output_not_added": lambda input, output, came: (input, torch.zeros_like(input)),
    "input_detached": lambda input, output, came: (input.detach(), output),
    "output_detached": lambda input, output, came: (input, output.detach()),
    "sum_detached": lambda input, output, came: (input.detach(), output.detach()),
    "multiplied": lambda input, output, came: (input * output, torch.zeros_like(input)),
}
NORMED_TERMS = {  # of the norm and the two terms
    "norm_before_residual": lambda norm, a, b: (a, norm(b)),
    "norm_of_input": lambda norm, a, b: (norm(a), b),
    "both_normalised": lambda norm, a, b: (norm(a), norm(b)),
    "input_normalised_too": lambda norm, a, b: (norm(a), b),
    "output_normalised_too": lambda norm, a, b: (a, norm(b)),
}
NORMS = {  # of the norm and the sum
    "no_norm": lambda norm, x: x,
    "norm_before_residual": lambda norm, x: x,
    "norm_of_input": lambda norm, x: x,
    "both_normalised": lambda norm, x: x,
    "norm_twice": lambda norm, x: norm(norm(x)),
    "norm_without_weights": lambda norm, x: F.layer_norm(x, x.shape[-1:], eps=norm.eps),
    "norm_sample_variance": lambda norm, x: by_hand(x, norm, -1, correction=1),
    "norm_over_tokens": lambda norm, x: by_hand(x, norm, 1),
    "norm_over_all": lambda norm, x: by_hand(x, norm, (0, 1, 2)),
    "norm_without_bias": lambda norm, x: norm(x) - norm.bias,
    "norm_without_root": lambda norm, x: by_hand(x, norm, -1, power=1),
}
SLOTS = {
    "dropout": "no_dropout dropout_in_evaluation dropout_on_input dropout_on_sum "
    "dropout_after_norm dropout_before_dense layers_own_dropout dropout_twice "
    "dropout_only_in_evaluation".split(),
    "dense": "dense_skipped dense_of_sum dense_of_both dense_of_input dense_twice "
    "always_attentions_modules input_output_swapped".split(),
    "activation": ACTIVATIONS,
    "residual": [*TERMS, "residual_after_norm_too"],
    "norm": [*(NORMS | NORMED_TERMS), "always_attentions_norm", "always_last_norm"],
    "result": ["result_detached"],
}
ELSEWHERE = {  # where dropout acts instead of on the output
    "no_dropout", "dropout_on_input", "dropout_on_sum", "dropout_after_norm",
    "dropout_before_dense", "dense_of_sum",
}  # fmt: skip


def add_norm(wrong: Switches, self, input, output, dense_layer, dropout, ln_layer) -> Tensor:
    """The function, with the mistakes in ``wrong``: (B, L, D) and (B, L, D or I) → (B, L, D)."""
    layer = self.attention_dropout if "layers_own_dropout" in wrong else dropout

    def drop_at(places: set[str], x: Tensor) -> Tensor:
        return dropped(wrong, layer, x) if wrong & places else x

    dense = self.attention_dense if "always_attentions_modules" in wrong else dense_layer
    norms = {
        "always_attentions_modules": self.attention_layer_norm,
        "always_attentions_norm": self.attention_layer_norm,
        "always_last_norm": self.out_layer_norm,
    }
    norm = chosen(norms, wrong, ln_layer)
    if "input_output_swapped" in wrong:
        input, output = output, input
    if "dense_of_input" in wrong:
        output = input
    came = output = drop_at({"dropout_before_dense"}, output)
    if not wrong & {"dense_skipped", "dense_of_sum"}:
        output = dense(output)
    if "dense_twice" in wrong:
        output = dense(output)
    output = chosen(ACTIVATIONS, wrong, lambda x: x)(output)
    if "dense_of_both" in wrong:
        input = dense(input)
    if not wrong & ELSEWHERE:
        output = dropped(wrong, layer, output)
    input = drop_at({"dropout_on_input"}, input)
    terms = chosen(TERMS, wrong, lambda input, output, came: (input, output))(input, output, came)
    first, second = chosen(NORMED_TERMS, wrong, lambda norm, a, b: (a, b))(norm, *terms)
    total = first + second
    if "dense_of_sum" in wrong:
        total = dropped(wrong, layer, dense(total))
    total = drop_at({"dropout_on_sum"}, total)
    result = chosen(NORMS, wrong, lambda norm, x: norm(x))(norm, total)
    result = drop_at({"dropout_after_norm", "dropout_twice"}, result)
    if "residual_after_norm_too" in wrong:
        result = result + input
    return result.detach() if "result_detached" in wrong else result


def by_hand(total: Tensor, norm, axis, correction: int = 0, power: float = 0.5) -> Tensor:
    """A layer norm written out, along another axis or of another variance."""
    centred = total - total.mean(axis, keepdim=True)
    spread = total.var(axis, keepdim=True, correction=correction) ** power + norm.eps
    return norm.weight * centred / spread + norm.bias
