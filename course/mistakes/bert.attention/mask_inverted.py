"""Where the mask is 0 the scores are hidden: those are the tokens, not the padding.

Hint: This mask is not the tokenizer's 1 and 0 any more: here 0 stands for a token and a hugely
negative number for padding.
Read: Vaswani et al. 2017, §3.2.3; docs/handout.md, Task 1.1
"""

import math

import torch
from torch.nn import functional as F


class MaskInverted:
    def attention(self, key, query, value, attention_mask):
        scores = query @ key.transpose(-1, -2)
        scores = scores / math.sqrt(self.attention_head_size)
        scores = scores.masked_fill(attention_mask == 0, -1e9)
        probabilities = F.softmax(scores, dim=-1)
        probabilities = self.dropout(probabilities)
        context = probabilities @ value
        context = context.transpose(1, 2)
        context = context.flatten(2)
        return context


class Where:
    def attention(self, key, query, value, attention_mask):
        fit = torch.einsum("bhqw,bhkw->bhqk", query, key) / key.size(-1) ** 0.5
        fit = torch.where(attention_mask == 0, torch.full_like(fit, -1e9), fit)
        return torch.einsum("bhqk,bhkw->bqhw", self.dropout(fit.softmax(-1)), value).flatten(2)
