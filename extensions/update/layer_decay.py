"""Layer-wise decay of the learning rate: the lower a layer, the less it moves.

Sun et al. 2019 ("How to Fine-Tune BERT for Text Classification?", "layer-wise decreasing layer
rate"), after Howard & Ruder 2018 (ULMFiT, section 3.2, discriminative fine-tuning):

    η_{l−1} = ξ η_l,  so  η_l = η ξ^{N − l}  for layer l = 1 … N,  η ξ^N  for the embeddings (l = 0)

The pooler and the heads, which begin from nothing or nearly so, keep η.

What to try: ξ = .95 (Sun et al.), down to .8. ξ = 1 is ordinary training, ξ → 0 trains heads alone.
In front of the loop:

    optimizer = AdamW(parameter_groups(model, lr=2e-5, decay=0.95))
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from torch import nn

EMBEDDINGS = re.compile(r"bert\.\w*embed\w*\.")  # word_embedding … embed_layer_norm
SHARED_LAYER = re.compile(r"bert\.bert_layers\.(\d+)\.")
TASK_LAYER = re.compile(r"task_layers\.\w+\.(\d+)\.")  # on top of the shared ones


def depth(name: str, shared: int, layers: int) -> int:
    """The l of a parameter: 0 for embeddings, 1 … N for layers, N for all above them.

    Args:
        name: as in ``model.named_parameters()``.
        shared: how many layers ``bert.bert_layers`` has.
        layers: N, with the tasks' own on top.
    """
    if EMBEDDINGS.match(name):
        return 0
    if match := SHARED_LAYER.match(name):
        return int(match[1]) + 1
    if match := TASK_LAYER.match(name):
        return shared + int(match[1]) + 1
    return layers


def parameter_groups(model: nn.Module, lr: float, decay: float) -> list[dict]:
    """Groups for an optimizer, by depth, of all parameters that learn.

    Args:
        model: with a BertModel as ``model.bert``.
        lr, decay: η, ξ.

    Returns:
        Groups with 'params', 'lr' and 'scale', the ratio of their lr and η, which a schedule has to
        keep.
    """
    if not 0 < decay <= 1:
        raise ValueError(f"the decay is {decay}, it must be above 0 and at most 1")
    shared = len(model.bert.bert_layers)
    own: Iterable[nn.ModuleList] = dict(getattr(model, "task_layers", {})).values()
    layers = shared + max((len(stack) for stack in own), default=0)
    by_depth: dict[int, list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            by_depth.setdefault(depth(name, shared, layers), []).append(parameter)
    return [
        {"params": params, "lr": lr * decay ** (layers - l), "scale": decay ** (layers - l)}
        for l, params in sorted(by_depth.items())
    ]
