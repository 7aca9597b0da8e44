"""Attention by PyTorch's kernel, in place of the method ``attention`` of a model's layers.

On a CPU with dropout the kernel is neither faster nor leaner than the formula: it falls back to the
same products. Without dropout it never writes the scores to memory, and on texts of hundreds of
pieces is two to four times as fast. Hence in evaluation always, in training only on request.
"""

from types import MethodType

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def use_attention_kernel(model: nn.Module, in_training: bool = False) -> None:
    """Let every layer's self-attention in ``model`` compute its context with PyTorch's kernel.

    Args:
        model: one or several BERTs, whose layers call ``self_attention.attention``.
        in_training: False keeps the layer's own method while the model trains.
    """
    for name, module in model.named_modules():
        if name.split(".")[-1] == "self_attention":
            replacement = attention_by_kernel if in_training else attention_in_evaluation
            module.attention = MethodType(replacement, module)


def attention_by_kernel(
    self: nn.Module, key: Tensor, query: Tensor, value: Tensor, attention_mask: Tensor
) -> Tensor:
    """What the formula computes: three (B, H, L, W) and a mask (B, 1, 1, L) → (B, L, D)."""
    dropout = self.dropout.p if self.training else 0.0
    mask = attention_mask.to(query.dtype) if is_padded(attention_mask) else None
    context = F.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, dropout_p=dropout
    )  # (B, H, L, W)
    return context.transpose(1, 2).flatten(2)  # (B, L, H, W) → (B, L, D)


def attention_in_evaluation(
    self: nn.Module, key: Tensor, query: Tensor, value: Tensor, attention_mask: Tensor
) -> Tensor:
    """The same in evaluation; in training the class's own method.

    A mask that hides nothing takes the type of the scores: else it would widen those of a bfloat16
    run to float32.
    """
    if not self.training:
        return attention_by_kernel(self, key, query, value, attention_mask)
    if not is_padded(attention_mask):
        attention_mask = attention_mask.to(query.dtype)
    return type(self).attention(self, key, query, value, attention_mask)


def is_padded(additive_mask: Tensor) -> bool:
    """Whether a mask (B, 1, 1, L) hides anything; without one the kernel is faster still.

    Always True where looking would stall the device or break up a compiled graph.
    """
    if additive_mask.device.type != "cpu" or torch.compiler.is_compiling():
        return True
    return bool(additive_mask.any())
