"""BitFit: fine-tune the biases and the task's head, nothing else (Ben Zaken et al. 2022).

Section 3: every layer is a linear map W x + b or a LayerNorm g ⊙ x + b; of these only the b learn,
those of LayerNorm included. At bert-base that is 102,912 numbers, 0.09 % of the model; the paper's
smallest choice, the biases of the queries and of the feed-forward network's first layer (its b_q
and b_m2), is 46,080.

A bias of the keys never gets a gradient: it adds q·b to all scores of a row alike, and softmax does
not see what is added to all. 9,216 of the 102,912 learn nothing; a test here shows it.

To try: learning rates of 1e-4 to 1e-3, ten to fifty times that of full fine-tuning; no weight
decay, which would pull pretrained biases to 0. Compare with LoRA of rank 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from training.errors import InputError

SMALLEST = ("query", "interm_dense")  # b_q and b_m2, by their names in our BERT


def train_biases(model: nn.Module, layers: Sequence[str] = ()) -> list[str]:
    """Freeze all of a model, such as a BertModel, but its biases.

    Call it on the encoder, before the optimizer takes its parameters; the head goes on learning.

    Args:
        layers: last parts of the names of the layers whose biases learn; all if none are given.

    Returns:
        The names of the parameters that learn.

    Raises:
        InputError: there are no such biases.
    """
    names = []
    for name, parameter in model.named_parameters():
        layer, _, kind = name.rpartition(".")
        wanted = not layers or layer.rpartition(".")[2] in layers
        parameter.requires_grad_(kind == "bias" and wanted)
        if parameter.requires_grad:
            names.append(name)
    if not names:
        raise InputError(f"this model has no biases in layers called {' or '.join(layers)}")
    return names
