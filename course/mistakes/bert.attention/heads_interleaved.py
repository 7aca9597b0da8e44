"""The heads' outputs are interleaved: first number 1 of all heads, then number 2, and so on.

Hint: Side by side means all W numbers of the first head, then those of the second. In which order
do the last two axes stand when they are merged?
Read: Vaswani et al. 2017, §3.2.2
"""

import math

import torch
from torch.nn import functional as F


class HeadsInterleaved:
    def attention(self, key, query, value, attention_mask):
        scores = query @ key.transpose(-1, -2)
        scores = scores / math.sqrt(self.attention_head_size)
        scores = scores + attention_mask
        probabilities = F.softmax(scores, dim=-1)
        probabilities = self.dropout(probabilities)
        context = probabilities @ value
        context = context.permute(0, 2, 3, 1)
        context = context.flatten(2)
        return context


class WithEinsum:
    def attention(self, key, query, value, attention_mask):
        fit = torch.einsum("bhqw,bhkw->bhqk", query, key) / key.size(-1) ** 0.5 + attention_mask
        share = self.dropout(fit.softmax(-1))
        return torch.einsum("bhqk,bhkw->bqwh", share, value).flatten(2)


class Stacked:
    def attention(self, key, query, value, attention_mask):
        p = self.dropout.p if self.training else 0.0
        out = F.scaled_dot_product_attention(query, key, value, attention_mask, dropout_p=p)
        return torch.stack(list(out.unbind(dim=1)), dim=-1).flatten(2)
