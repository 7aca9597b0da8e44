"""Heads of one, two or three layers on a sentence's vector.

One layer is BERT's own (Devlin et al. 2019, section 4.1); two are RoBERTa's (Liu et al. 2019):
dense, tanh, dropout, dense. A third puts one more dense, tanh, dropout between.

What to try: with ``pooling`` 'pooler' one layer already follows BERT's dense and tanh; more pay
rather where the vector comes as it is, from [CLS] or a mean, or where BERT is frozen. In the model:

    self.sentiment = make_head(config.hidden_size, 5, layers=2)
"""

from __future__ import annotations

from torch import nn

LAYERS = (1, 2, 3)


def make_head(
    inputs: int, outputs: int, layers: int = 1, hidden: int | None = None, dropout: float = 0.1
) -> nn.Module:
    """(B, inputs) → (B, outputs). Dropout before the first layer is the caller's.

    One layer is a plain nn.Linear, so that checkpoints of it are those of a model without choice.

    Args:
        hidden: numbers between the layers; as many as inputs if not given.
        dropout: between the layers.
    """
    if layers not in LAYERS:
        raise ValueError(f"a head of {layers} layers; there are {', '.join(map(str, LAYERS))}")
    hidden = hidden or inputs
    parts: list[nn.Module] = []
    for _ in range(layers - 1):
        parts += [nn.Linear(inputs, hidden), nn.Tanh(), nn.Dropout(dropout)]
        inputs = hidden
    last = nn.Linear(inputs, outputs)
    return nn.Sequential(*parts, last) if parts else last
