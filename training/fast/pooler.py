"""BERT's last layer for the first position alone, where nobody asks for the others.

A classifier reads [CLS] only. Of the last layer, it needs keys and values of all positions, and
the rest of one: of six layers, 14 % of all products are left out, forwards and backwards.
"""

from types import MethodType

import torch
from torch import Tensor, nn


def use_lazy_output(model: nn.Module) -> None:
    """Let every BertModel in ``model`` compute its last layer when its output is read."""
    for module in model.modules():
        if type(module).__name__ == "BertModel":
            module.forward = MethodType(lazy_output, module)


class LazyOutput(dict):
    """What BertModel returns; each of the two tensors is computed when it is first read."""

    def __init__(self, bert: nn.Module, hidden: Tensor, mask: Tensor):
        super().__init__()
        self.bert, self.inputs = bert, (hidden, mask)

    def __missing__(self, name: str) -> Tensor:
        layer = self.bert.bert_layers[-1]
        if name == "last_hidden_state":
            self[name] = layer(*self.inputs)  # (B, L, D)
        elif name == "pooler_output":
            encoded = self.get("last_hidden_state")
            encoded = first_position(layer, *self.inputs) if encoded is None else encoded
            self[name] = self.bert.pooler_af(self.bert.pooler_dense(encoded[:, 0]))  # (B, D)
        else:
            raise KeyError(name)
        return self[name]


def lazy_output(
    self: nn.Module,
    input_ids: Tensor,
    attention_mask: Tensor,
    token_type_ids: Tensor | None = None,
) -> dict[str, Tensor]:
    """What BertModel's forward takes and returns, with the last layer left for later."""
    segments = () if token_type_ids is None else (token_type_ids,)
    parts = self.bert_layers[-1].modules()
    if any(part._forward_pre_hooks or part._forward_hooks for part in parts):  # PALs'
        return type(self).forward(self, input_ids, attention_mask, *segments)
    hidden = self.embed(input_ids, *segments)  # (B, L, D)
    mask = (1 - attention_mask[:, None, None].to(hidden)) * torch.finfo(hidden.dtype).min
    for layer in self.bert_layers[:-1]:
        hidden = layer(hidden, mask)  # (B, L, D), (B, 1, 1, L) → (B, L, D)
    return LazyOutput(self, hidden, mask)


def first_position(layer: nn.Module, hidden: Tensor, mask: Tensor) -> Tensor:
    """What ``layer(hidden, mask)`` computes for the first position: (B, L, D) → (B, 1, D)."""
    attend, first = layer.self_attention, hidden[:, :1]
    key, value = (attend.transform(hidden, part) for part in (attend.key, attend.value))
    query = attend.transform(first, attend.query)  # (B, H, 1, W)
    attended = attend.attention(key, query, value, mask)  # (B, 1, D)
    attended = layer.add_norm(
        first, attended, layer.attention_dense, layer.attention_dropout, layer.attention_layer_norm
    )
    expanded = layer.interm_af(layer.interm_dense(attended))  # (B, 1, intermediate size)
    return layer.add_norm(
        attended, expanded, layer.out_dense, layer.out_dropout, layer.out_layer_norm
    )
