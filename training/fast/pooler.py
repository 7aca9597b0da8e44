"""BERT's last layer for the first position alone, where nobody asks for the others.

A classifier reads [CLS] only. Of the last layer, it needs keys and values of all positions, and
the rest of one: of six layers, 14 % of all products are left out, forwards and backwards.
"""

from functools import partial
from types import MethodType

import torch
from torch import Tensor, nn


class LazyOutput(dict):
    """Functions by name. Reading one calls it, once; two of them draw different dropout."""

    def __getitem__(self, name: str) -> Tensor:
        if callable(value := super().__getitem__(name)):
            self[name] = value = value()
        return value


def use_lazy_output(model: nn.Module) -> None:
    """Let every BertModel in ``model`` compute its last layer when its output is read."""
    for module in model.modules():
        if type(module).__name__ == "BertModel":
            module.forward = MethodType(lazy_output, module)


def lazy_output(
    self: nn.Module, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
) -> dict[str, Tensor]:
    """What BertModel's forward takes and returns, with the last layer left for later."""
    *layers, last = self.bert_layers
    if any(part._forward_pre_hooks or part._forward_hooks for part in last.modules()):  # PALs'
        return type(self).forward(self, input_ids, attention_mask, token_type_ids)
    hidden = self.embed(input_ids, token_type_ids)  # (B, L, D)
    mask = (1 - attention_mask[:, None, None].to(hidden)) * torch.finfo(hidden.dtype).min
    for layer in layers:
        hidden = layer(hidden, mask)  # (B, L, D), (B, 1, 1, L) → (B, L, D)
    both = {"last_hidden_state": last, "pooler_output": partial(pool, self)}
    return LazyOutput({name: partial(function, hidden, mask) for name, function in both.items()})


def pool(bert: nn.Module, hidden: Tensor, mask: Tensor) -> Tensor:
    """The last layer for the first position alone, then the pooler: (B, L, D) → (B, D)."""
    layer, first = bert.bert_layers[-1], hidden[:, :1]
    attend = layer.self_attention
    key, value = (attend.transform(hidden, part) for part in (attend.key, attend.value))
    x = attend.attention(key, attend.transform(first, attend.query), value, mask)  # (B, 1, D)
    norms = layer.attention_dropout, layer.attention_layer_norm
    attended = layer.add_norm(first, x, layer.attention_dense, *norms)  # (B, 1, D)
    x = layer.interm_af(layer.interm_dense(attended))  # (B, 1, intermediate size)
    x = layer.add_norm(attended, x, layer.out_dense, layer.out_dropout, layer.out_layer_norm)
    return bert.pooler_af(bert.pooler_dense(x[:, 0]))
