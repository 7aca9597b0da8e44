"""Parts of a BERT that lessons/lab.py can switch off.

Weights are set to 0 for a while, or hooks on modules change what goes in or comes out, so it works
with any bert.py of the assignment. Shapes: B rows, L tokens, D hidden size, W = D / H a head's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from pretraining.model import PretrainingModel
from training.files.errors import InputError

PADDING = 8  # tokens behind each row, which are seen once the mask is off

Switch = Callable[[], AbstractContextManager]  # in its with block, a part is off


@contextmanager
def zeroed(weight: Tensor) -> Iterator[None]:
    """In a with block, these weights are 0."""
    weight = weight.detach()
    before = weight.clone()
    weight.zero_()
    try:
        yield
    finally:
        weight.copy_(before)


def head_off(layer: nn.Module, head: int) -> AbstractContextManager:
    """In a with block, nothing reads this head: its columns in the layer's output matrix are 0."""
    width = layer.self_attention.attention_head_size
    return zeroed(layer.attention_dense.weight[:, head * width : (head + 1) * width])  # (D, W)


@contextmanager
def hooked(*handles: Any) -> Iterator[None]:
    """These hooks act in a with block only."""
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def bypassed(*modules: nn.Module) -> Iterator[None]:
    """In a with block, modules return what they are given first.

    Raises:
        InputError: some are not called, as where only their weights are read.
    """
    called = set()

    def give_back(module: nn.Module, given: tuple, _: Tensor) -> Tensor:
        called.add(module)
        return given[0]

    with hooked(*(module.register_forward_hook(give_back) for module in modules)):
        yield
    if len(called) < len(modules):
        raise InputError(
            "bert.py reads the weights of a LayerNorm and does not call it, so that it cannot be "
            "switched off; leave this round out: --rounds heads layers patching"
        )


def mask_ignored(bert: nn.Module) -> AbstractContextManager:
    """In a with block, PADDING tokens behind each row are attended to like any others."""

    def lengthen(_: nn.Module, given: tuple) -> tuple:
        ids, mask, *rest = given  # (B, L) each
        ids = F.pad(ids, (0, PADDING), value=bert.config.pad_token_id)  # (B, L + PADDING)
        return (ids, F.pad(mask, (0, PADDING), value=1), *rest)

    def shorten(_: nn.Module, given: tuple, result: dict[str, Tensor]) -> dict[str, Tensor]:
        return result | {"last_hidden_state": result["last_hidden_state"][:, :-PADDING]}

    return hooked(bert.register_forward_pre_hook(lengthen), bert.register_forward_hook(shorten))


def switches(model: PretrainingModel) -> dict[str, dict[str, Switch]]:
    """For each round, what can be switched off: {"heads": {"layer 1, head 1": switch, …}, …}."""
    layers = model.bert.bert_layers
    norms = [n for layer in layers for n in (layer.attention_layer_norm, layer.out_layer_norm)]
    off = functools.partial
    return {
        "heads": {
            f"layer {i}, head {head + 1}": off(head_off, layer, head)
            for i, layer in enumerate(layers, start=1)
            for head in range(model.config.num_attention_heads)
        },
        "layers": {f"layer {i}": off(bypassed, layer) for i, layer in enumerate(layers, start=1)},
        "parts": {
            "the mask": off(mask_ignored, model.bert),
            "the positions": off(zeroed, model.bert.pos_embedding.weight),
            "the norms": off(bypassed, *norms),
        },
    }
