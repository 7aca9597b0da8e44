"""The weights are applied to the keys; the values are not used.

Hint: Keys only serve to find what fits. What is handed over, weighted, are the values.
Read: Vaswani et al. 2017, §3.2.1
"""

import math

import torch
from torch.nn import functional as F


class ValueNotUsed:
    def attention(self, key, query, value, attention_mask):
        scores = query @ key.transpose(-1, -2)
        scores = scores / math.sqrt(self.attention_head_size)
        scores = scores + attention_mask
        probabilities = F.softmax(scores, dim=-1)
        probabilities = self.dropout(probabilities)
        context = probabilities @ key
        context = context.transpose(1, 2)
        context = context.flatten(2)
        return context


class WithEinsum:
    def attention(self, key, query, value, attention_mask):
        fit = torch.einsum("bhqw,bhkw->bhqk", query, key) / key.size(-1) ** 0.5 + attention_mask
        return torch.einsum("bhqk,bhkw->bqhw", self.dropout(fit.softmax(-1)), key).flatten(2)


class OwnKernel:
    def attention(self, key, query, value, attention_mask):
        p = self.dropout.p if self.training else 0.0
        out = F.scaled_dot_product_attention(query, key, key, attention_mask, dropout_p=p)
        return out.transpose(1, 2).reshape(key.size(0), key.size(2), -1)
