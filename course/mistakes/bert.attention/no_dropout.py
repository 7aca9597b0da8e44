"""The attention probabilities get no dropout.

Hint: `self.dropout` is made in __init__ and nothing uses it. Published solutions forget it more
often than anything else.
Read: Vaswani et al. 2017, §5.4
"""

import math

import torch
from torch.nn import functional as F


class NoDropout:
    def attention(self, key, query, value, attention_mask):
        scores = query @ key.transpose(-1, -2)
        scores = scores / math.sqrt(self.attention_head_size)
        scores = scores + attention_mask
        probabilities = F.softmax(scores, dim=-1)
        context = probabilities @ value
        context = context.transpose(1, 2)
        context = context.flatten(2)
        return context


class OwnKernel:
    def attention(self, key, query, value, attention_mask):
        out = F.scaled_dot_product_attention(query, key, value, attn_mask=attention_mask)
        return out.transpose(1, 2).reshape(key.size(0), key.size(2), -1)


class WithEinsum:
    def attention(self, key, query, value, attention_mask):
        fit = torch.einsum("bhqw,bhkw->bhqk", query, key) / key.size(-1) ** 0.5 + attention_mask
        return torch.einsum("bhqk,bhkw->bqhw", fit.softmax(-1), value).flatten(2)
