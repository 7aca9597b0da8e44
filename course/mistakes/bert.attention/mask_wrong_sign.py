"""The mask is subtracted: only padding is attended to.

Hint: The mask is already negative for padding, so that adding it makes these scores small.
Read: Vaswani et al. 2017, §3.2.3; docs/handout.md, Task 1.1
"""

import math

import torch
from torch.nn import functional as F


class MaskWrongSign:
    def attention(self, key, query, value, attention_mask):
        scores = query @ key.transpose(-1, -2)
        scores = scores / math.sqrt(self.attention_head_size)
        scores = scores - attention_mask
        probabilities = F.softmax(scores, dim=-1)
        probabilities = self.dropout(probabilities)
        context = probabilities @ value
        context = context.transpose(1, 2)
        context = context.flatten(2)
        return context


class Turned:
    def attention(self, key, query, value, attention_mask):
        p = self.dropout.p if self.training else 0.0
        out = F.scaled_dot_product_attention(query, key, value, -attention_mask, dropout_p=p)
        return out.transpose(1, 2).reshape(key.size(0), key.size(2), -1)


class Absolute:
    def attention(self, key, query, value, attention_mask):
        fit = torch.einsum("bhqw,bhkw->bhqk", query, key) / key.size(-1) ** 0.5
        share = self.dropout((attention_mask.abs() + fit).softmax(dim=3))
        return torch.einsum("bhqk,bhkw->bqhw", share, value).flatten(2)
