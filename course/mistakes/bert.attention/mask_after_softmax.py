"""The mask is added after the softmax.

Hint: What is added there makes huge negative weights. Added to the scores it makes a weight of
zero.
Read: Vaswani et al. 2017, §3.2.3; docs/handout.md, Task 1.1
"""

import math

import torch
from torch.nn import functional as F


class MaskAfterSoftmax:
    def attention(self, key, query, value, attention_mask):
        scores = query @ key.transpose(-1, -2)
        scores = scores / math.sqrt(self.attention_head_size)
        probabilities = F.softmax(scores, dim=-1)
        probabilities = probabilities + attention_mask
        probabilities = self.dropout(probabilities)
        context = probabilities @ value
        context = context.transpose(1, 2)
        context = context.flatten(2)
        return context


class WithEinsum:
    def attention(self, key, query, value, attention_mask):
        fit = torch.einsum("bhqw,bhkw->bhqk", query, key) * self.attention_head_size**-0.5
        share = self.dropout(fit.softmax(-1).add(attention_mask))
        return torch.einsum("bhqk,bhkw->bqhw", share, value).flatten(2)
