"""The scores are divided by √H, the number of heads, instead of √W, the width of one head.

Hint: What is summed in a score are products of the numbers in two vectors: how many are there in
one head?
Read: Vaswani et al. 2017, §3.2.1
"""

import math

import torch
from torch.nn import functional as F


class ScaleByHeads:
    def attention(self, key, query, value, attention_mask):
        scores = query @ key.transpose(-1, -2)
        scores = scores / math.sqrt(self.num_attention_heads)
        scores = scores + attention_mask
        probabilities = F.softmax(scores, dim=-1)
        probabilities = self.dropout(probabilities)
        context = probabilities @ value
        context = context.transpose(1, 2)
        context = context.flatten(2)
        return context


class FromTheShape:
    def attention(self, key, query, value, attention_mask):
        _, count, length, _ = key.shape
        fit = torch.matmul(query, key.permute(0, 1, 3, 2)) * count**-0.5
        share = self.dropout((fit + attention_mask).softmax(-1))
        return (
            torch.matmul(share, value).permute(0, 2, 1, 3).reshape(-1, length, self.all_head_size)
        )
