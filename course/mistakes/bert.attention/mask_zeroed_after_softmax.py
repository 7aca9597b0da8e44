"""The weights of padding are set to zero after the softmax: the others do not sum to one.

Hint: Padding has already had its share when the softmax divided by the sum. It has to be hidden
before.
Read: Vaswani et al. 2017, §3.2.3; docs/handout.md, Task 1.1
"""

import math

import torch
from torch import nn
from torch.nn import functional as F


class MaskZeroedAfterSoftmax:
    def attention(self, key, query, value, attention_mask):
        scores = query @ key.transpose(-1, -2)
        scores = scores / math.sqrt(self.attention_head_size)
        probabilities = F.softmax(scores, dim=-1)
        probabilities = probabilities * (attention_mask == 0)
        probabilities = self.dropout(probabilities)
        context = probabilities @ value
        context = context.transpose(1, 2)
        context = context.flatten(2)
        return context


class Filled:
    def attention(self, key, query, value, attention_mask):
        share = nn.Softmax(dim=-1)(query @ key.mT / self.attention_head_size**0.5)
        share = self.dropout(share.masked_fill(attention_mask < 0, 0.0))
        return (share @ value).permute(0, 2, 1, 3).flatten(2)


class ValuesZeroed:
    def attention(self, key, query, value, attention_mask):
        p = self.dropout.p if self.training else 0.0
        seen = torch.where(attention_mask.mT < 0, torch.zeros_like(value), value)
        out = F.scaled_dot_product_attention(query, key, seen, dropout_p=p)
        return out.transpose(1, 2).flatten(2)
