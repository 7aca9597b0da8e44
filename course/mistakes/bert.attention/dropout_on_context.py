"""Dropout acts on the weighted sums instead of the probabilities.

Hint: Dropping a weight means that a piece has to do without another one. What comes out of
attention has a dropout of its own, later, in add & norm.
Read: Vaswani et al. 2017, §5.4
"""

import math

import torch
from torch.nn import functional as F


class DropoutOnContext:
    def attention(self, key, query, value, attention_mask):
        scores = query @ key.transpose(-1, -2)
        scores = scores / math.sqrt(self.attention_head_size)
        scores = scores + attention_mask
        probabilities = F.softmax(scores, dim=-1)
        context = probabilities @ value
        context = self.dropout(context)
        context = context.transpose(1, 2)
        context = context.flatten(2)
        return context


class OfTheKernelsResult:
    def attention(self, key, query, value, attention_mask):
        out = F.scaled_dot_product_attention(query, key, value, attention_mask)
        out = F.dropout(out, self.dropout.p, self.training)
        return out.transpose(1, 2).reshape(key.size(0), key.size(2), -1)


class WithEinsum:
    def attention(self, key, query, value, attention_mask):
        fit = torch.einsum("bhqw,bhkw->bhqk", query, key) / key.size(-1) ** 0.5 + attention_mask
        return self.dropout(torch.einsum("bhqk,bhkw->bqhw", fit.softmax(-1), value)).flatten(2)
