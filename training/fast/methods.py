"""Methods that take the place of a model's own: attention, dropout and BERT's last layer.

- On a CPU with dropout PyTorch's attention kernel is neither faster nor leaner than the formula: it
  falls back to the same products. Without dropout it never writes the scores to memory, and on
  texts of hundreds of tokens is two to four times as fast. Hence in evaluation always, in training
  on GPUs alone.
- For dropout PyTorch draws a number of 24 bits or more for each element, one after the other: up to
  a quarter of a training step's time on a CPU. Sixteen bits are enough for the same decision, and
  four of them fit into one draw.
- A classifier reads [CLS] only. Of the last layer, it needs keys and values of all positions, and
  the rest of one: of six layers, 14 % of all products are left out, forwards and backwards.
"""

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

VALUES = 1 << 16  # that sixteen bits have


def attention_by_kernel(
    self: nn.Module, key: Tensor, query: Tensor, value: Tensor, attention_mask: Tensor
) -> Tensor:
    """What the formula computes: three (B, H, L, W) and a mask (B, 1, 1, L) → (B, L, D)."""
    if self.training and query.device.type == "cpu":
        return type(self).attention(self, key, query, value, attention_mask)
    dropout = self.dropout.p if self.training else 0.0
    context = F.scaled_dot_product_attention(query, key, value, attention_mask.to(query), dropout)
    return context.transpose(1, 2).flatten(2)  # (B, L, H, W) → (B, L, D)


def dropout_by_bits(self: nn.Dropout, x: Tensor) -> Tensor:
    """What ``nn.Dropout`` computes on a CPU, with p rounded to a 65,536th; of any shape.

    An element stays with probability q = 1 − p, and is then divided by q.
    """
    dropped = round(self.p * VALUES)
    on_cpu = x.device.type == "cpu" and not torch.compiler.is_compiling()
    if not (on_cpu and self.training and 0 < dropped < VALUES):
        return F.dropout(x, self.p, self.training)
    draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    bits = draws.view(torch.int16)[: x.numel()].view(x.shape)  # from −32,768 to 32,767
    stays = (bits >= dropped - VALUES // 2).to(x.dtype)
    return x * stays.mul_(VALUES / (VALUES - dropped))


class LazyOutput(dict):
    """Functions by name. Reading one calls it, once; two of them draw different dropout."""

    def __getitem__(self, name: str) -> Tensor:
        if callable(value := super().__getitem__(name)):
            self[name] = value = value()
        return value


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
