"""Attention by PyTorch's kernel, in place of the method ``attention`` of a model's layers.

On a CPU with dropout the kernel is neither faster nor leaner than the formula: it falls back to the
same products. Without dropout it never writes the scores to memory, and on texts of hundreds of
pieces is two to four times as fast. Hence in evaluation always, in training on GPUs alone.
"""

from types import MethodType

from torch import Tensor, nn
from torch.nn import functional as F


def use_attention_kernel(model: nn.Module) -> None:
    """Let every layer's self-attention in ``model`` compute its context with PyTorch's kernel.

    The model is one or several BERTs, whose layers call ``self_attention.attention``.
    """
    for name, module in model.named_modules():
        if name.split(".")[-1] == "self_attention":
            module.attention = MethodType(attention_by_kernel, module)


def attention_by_kernel(
    self: nn.Module, key: Tensor, query: Tensor, value: Tensor, attention_mask: Tensor
) -> Tensor:
    """What the formula computes: three (B, H, L, W) and a mask (B, 1, 1, L) → (B, L, D)."""
    if self.training and query.device.type == "cpu":
        return type(self).attention(self, key, query, value, attention_mask)
    dropout = self.dropout.p if self.training else 0.0
    context = F.scaled_dot_product_attention(query, key, value, attention_mask.to(query), dropout)
    return context.transpose(1, 2).flatten(2)  # (B, L, H, W) → (B, L, D)
