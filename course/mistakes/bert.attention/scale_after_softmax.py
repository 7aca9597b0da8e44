"""The division by √W comes after the softmax.

Hint: There it makes all weights small, so that they no longer sum to one, and the softmax is as
hard as before.
Read: Vaswani et al. 2017, §3.2.1
"""

import math

import torch
from torch.nn import functional as F


class ScaleAfterSoftmax:
    def attention(self, key, query, value, attention_mask):
        scores = query @ key.transpose(-1, -2)
        scores = scores + attention_mask
        probabilities = F.softmax(scores, dim=-1)
        probabilities = probabilities / math.sqrt(self.attention_head_size)
        probabilities = self.dropout(probabilities)
        context = probabilities @ value
        context = context.transpose(1, 2)
        context = context.flatten(2)
        return context


class OfTheResult:
    def attention(self, key, query, value, attention_mask):
        share = self.dropout((query @ key.mT + attention_mask).softmax(-1))
        mixed = torch.einsum("bhqk,bhkw->bqhw", share, value).flatten(2)
        return mixed / self.attention_head_size**0.5
