"""The scores are multiplied by √W where they should be divided by it.

Hint: The scaling is there to make large scores smaller.
Read: Vaswani et al. 2017, §3.2.1
"""

import math

import torch
from torch.nn import functional as F


class ScaleMultiplied:
    def attention(self, key, query, value, attention_mask):
        scores = query @ key.transpose(-1, -2)
        scores = scores * math.sqrt(self.attention_head_size)
        scores = scores + attention_mask
        probabilities = F.softmax(scores, dim=-1)
        probabilities = self.dropout(probabilities)
        context = probabilities @ value
        context = context.transpose(1, 2)
        context = context.flatten(2)
        return context


class Divided:
    def attention(self, key, query, value, attention_mask):
        fit = torch.einsum("bhqw,bhkw->bhqk", query, key) / key.size(-1) ** -0.5
        share = self.dropout(torch.softmax(fit + attention_mask, dim=-1))
        return torch.einsum("bhqk,bhkw->bqhw", share, value).flatten(2)
