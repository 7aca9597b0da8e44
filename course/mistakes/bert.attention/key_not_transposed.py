"""The query is multiplied with the key as it is, without its transpose.

Hint: Every query (a row of W numbers) meets every key: (L, W) times (W, L).
Read: Vaswani et al. 2017, §3.2.1
"""

import math

import torch
from torch.nn import functional as F


class KeyNotTransposed:
    def attention(self, key, query, value, attention_mask):
        scores = query @ key
        scores = scores / math.sqrt(self.attention_head_size)
        scores = scores + attention_mask
        probabilities = F.softmax(scores, dim=-1)
        probabilities = self.dropout(probabilities)
        context = probabilities @ value
        context = context.transpose(1, 2)
        context = context.flatten(2)
        return context


class Matmul:
    def attention(self, key, query, value, attention_mask):
        fit = torch.matmul(query, key).div(math.sqrt(self.attention_head_size)) + attention_mask
        share = self.dropout(torch.softmax(fit, dim=-1))
        return torch.matmul(share, value).permute(0, 2, 1, 3).flatten(2)
