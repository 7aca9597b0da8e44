"""BitFit: fine-tune the biases and the task's head, nothing else (Ben Zaken et al. 2022).

Section 3: every layer is a linear map W x + b or a LayerNorm g ⊙ x + b; of these only the b learn,
those of LayerNorm included. At bert-base that is 102,912 numbers, 0.09 % of the model.

A bias of the keys never gets a gradient: it adds q·b to all scores of a row alike, and softmax does
not see what is added to all. 9,216 of the 102,912 learn nothing; a test here shows it.

To try: learning rates of 1e-4 to 1e-3, ten to fifty times that of full fine-tuning; no weight
decay, which would pull pretrained biases to 0. Compare with LoRA of rank 1.
"""

from __future__ import annotations

from torch import nn


def train_biases(model: nn.Module) -> list[str]:
    """Freeze all of a model, such as a BertModel, but its biases.

    Call it on the encoder, before the optimizer takes its parameters; the head goes on learning.

    Returns:
        The names of the parameters that learn.
    """
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.endswith("bias"))
    return [name for name, parameter in model.named_parameters() if parameter.requires_grad]
