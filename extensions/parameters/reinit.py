"""Draw the top layers again: they have learned too much about guessing masked words.

Zhang et al. 2021 ("Revisiting Few-sample BERT Fine-tuning"), section 5: before fine-tuning, the
pooler and the top k layers get values such as pre-training began with: weights N(0, 0.02²), biases
0, LayerNorm the identity.

What to try: k of 1 to 6 of 12; the pooler alone, with k = 0, does little. Bias correction in the
optimizer is a condition (section 4), and a warm-up helps.
"""

from __future__ import annotations

from torch import nn

from training.files.errors import InputError


def reinitialise_top(bert: nn.Module, count: int) -> None:
    """Give the pooler and the top ``count`` layers of a BertModel new random values, in place.

    Call it before the tasks take their own copies of the top layers (task_layers.py) and before an
    optimizer sees them. It draws from torch's random numbers.

    Raises:
        InputError: there are no so many layers, or they would not learn.
    """
    layers = len(bert.bert_layers)
    if not 0 <= count <= layers:
        raise InputError(f"{count} layers to draw again: this BERT has {layers}")
    redrawn = [bert.pooler_dense, *bert.bert_layers[layers - count :]]
    if not all(p.requires_grad for module in redrawn for p in module.parameters()):
        raise InputError("layers that are drawn again have to learn: use --option finetune")
    for module in redrawn:
        module.apply(bert._init_weights)
