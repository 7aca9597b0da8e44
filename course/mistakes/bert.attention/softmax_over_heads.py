"""The softmax runs over the heads.

Hint: Each head attends on its own: its weights over the keys sum to one.
Read: Vaswani et al. 2017, §3.2.1
"""

import math

import torch
from torch import nn
from torch.nn import functional as F


class SoftmaxOverHeads:
    def attention(self, key, query, value, attention_mask):
        scores = query @ key.transpose(-1, -2)
        scores = scores / math.sqrt(self.attention_head_size)
        scores = scores + attention_mask
        probabilities = F.softmax(scores, dim=1)
        probabilities = self.dropout(probabilities)
        context = probabilities @ value
        context = context.transpose(1, 2)
        context = context.flatten(2)
        return context


class NegativeAxis:
    def attention(self, key, query, value, attention_mask):
        fit = torch.einsum("bhqw,bhkw->bhqk", query, key) * self.attention_head_size**-0.5
        share = self.dropout(nn.Softmax(dim=-3)(fit + attention_mask))
        return torch.einsum("bhqk,bhkw->bqhw", share, value).flatten(2)


class HeadsLast:
    def attention(self, key, query, value, attention_mask):
        k, q, v = (x.permute(0, 2, 1, 3) for x in (key, query, value))
        fit = torch.einsum("bqhw,bkhw->bqkh", q, k) / math.sqrt(k.size(-1))
        share = (fit + attention_mask.permute(0, 2, 3, 1)).softmax(-1)
        share = self.dropout(share.permute(0, 3, 1, 2))
        return torch.einsum("bhqk,bkhw->bqhw", share, v).flatten(2)
