"""The heads are merged without bringing their axis beside the width first.

Hint: (B, H, L, W) reshaped to (B, L, D) has the right shape, but a row of it holds several tokens
of one head. A row has to hold all heads of one token.
Read: Vaswani et al. 2017, §3.2.2
"""

import math

import torch
from torch.nn import functional as F


class HeadsNotTransposed:
    def attention(self, key, query, value, attention_mask):
        scores = query @ key.transpose(-1, -2)
        scores = scores / math.sqrt(self.attention_head_size)
        scores = scores + attention_mask
        probabilities = F.softmax(scores, dim=-1)
        probabilities = self.dropout(probabilities)
        context = probabilities @ value
        context = context.reshape(context.size(0), context.size(2), -1)
        return context


class Viewed:
    def attention(self, key, query, value, attention_mask):
        batch, heads, length, width = key.shape
        p = self.dropout.p if self.training else 0.0
        out = F.scaled_dot_product_attention(query, key, value, attention_mask, dropout_p=p)
        return out.contiguous().view(batch, length, heads * width)


class WithEinsum:
    def attention(self, key, query, value, attention_mask):
        fit = torch.einsum("bhqw,bhkw->bhqk", query, key) / key.size(-1) ** 0.5 + attention_mask
        out = torch.einsum("bhqk,bhkw->bhqw", self.dropout(fit.softmax(-1)), value)
        return out.flatten(1).unflatten(1, (key.size(2), self.all_head_size))
