"""The softmax runs over the queries instead of the keys.

Hint: What one query takes from all keys has to sum to one. Which axis of the scores holds the keys?
Read: Vaswani et al. 2017, §3.2.1
"""

import math

import torch
from torch.nn import functional as F


class SoftmaxOverQueries:
    def attention(self, key, query, value, attention_mask):
        scores = query @ key.transpose(-1, -2)
        scores = scores / math.sqrt(self.attention_head_size)
        scores = scores + attention_mask
        probabilities = F.softmax(scores, dim=-2)
        probabilities = self.dropout(probabilities)
        context = probabilities @ value
        context = context.transpose(1, 2)
        context = context.flatten(2)
        return context


class ByHand:
    def attention(self, key, query, value, attention_mask):
        fit = torch.einsum("bhqw,bhkw->bhqk", query, key) / key.size(-1) ** 0.5 + attention_mask
        fit = (fit - fit.amax(2, keepdim=True)).exp()
        share = self.dropout(fit / fit.sum(dim=2, keepdim=True))
        return torch.einsum("bhqk,bhkw->bqhw", share, value).flatten(2)


class KeysFirst:
    def attention(self, key, query, value, attention_mask):
        fit = key @ query.mT / math.sqrt(self.attention_head_size) + attention_mask.mT
        share = self.dropout(fit.softmax(-1).transpose(2, 3))
        return (share @ value).permute(0, 2, 1, 3).flatten(2)
