"""The heads are not put together: the result still has an axis for them.

Hint: A layer expects D numbers for each token, all heads side by side.
Read: Vaswani et al. 2017, §3.2.2
"""

import math

import torch
from torch.nn import functional as F


class HeadsNotMerged:
    def attention(self, key, query, value, attention_mask):
        scores = query @ key.transpose(-1, -2)
        scores = scores / math.sqrt(self.attention_head_size)
        scores = scores + attention_mask
        probabilities = F.softmax(scores, dim=-1)
        probabilities = self.dropout(probabilities)
        context = probabilities @ value
        context = context.transpose(1, 2)
        return context


class WithEinsum:
    def attention(self, key, query, value, attention_mask):
        fit = torch.einsum("bhqw,bhkw->bhqk", query, key) / key.size(-1) ** 0.5 + attention_mask
        return torch.einsum("bhqk,bhkw->bqhw", self.dropout(fit.softmax(-1)), value)
