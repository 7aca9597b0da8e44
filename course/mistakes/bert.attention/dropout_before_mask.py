"""Dropout acts on the scores, before the mask is added, instead of the probabilities.

Hint: A score of zero is no missing weight: after the softmax it still gets its share. Dropout comes
after the softmax.
Read: Vaswani et al. 2017, §5.4
"""

import math

import torch
from torch.nn import functional as F


class DropoutBeforeMask:
    def attention(self, key, query, value, attention_mask):
        scores = query @ key.transpose(-1, -2)
        scores = scores / math.sqrt(self.attention_head_size)
        scores = self.dropout(scores)
        scores = scores + attention_mask
        probabilities = F.softmax(scores, dim=-1)
        context = probabilities @ value
        context = context.transpose(1, 2)
        context = context.flatten(2)
        return context


class WithEinsum:
    def attention(self, key, query, value, attention_mask):
        fit = torch.einsum("bhqw,bhkw->bhqk", query, key)
        fit = torch.dropout(fit, self.dropout.p, self.training) / key.size(-1) ** 0.5
        share = torch.softmax(fit + attention_mask, dim=-1)
        return torch.einsum("bhqk,bhkw->bqhw", share, value).flatten(2)
