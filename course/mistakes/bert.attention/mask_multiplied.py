"""The scores are multiplied by the attention mask instead of the mask being added.

Hint: The mask is no 1 and 0 here: it is 0 for a token and hugely negative for padding, made to be
added.
Read: Vaswani et al. 2017, §3.2.3; docs/handout.md, Task 1.1
"""

import math

import torch
from torch.nn import functional as F


class MaskMultiplied:
    def attention(self, key, query, value, attention_mask):
        scores = query @ key.transpose(-1, -2)
        scores = scores / math.sqrt(self.attention_head_size)
        scores = scores * attention_mask
        probabilities = F.softmax(scores, dim=-1)
        probabilities = self.dropout(probabilities)
        context = probabilities @ value
        context = context.transpose(1, 2)
        context = context.flatten(2)
        return context


class WithEinsum:
    def attention(self, key, query, value, attention_mask):
        fit = torch.einsum("bhqw,bhkw->bhqk", query, key) / key.size(-1) ** 0.5
        share = self.dropout(torch.softmax(torch.mul(fit, attention_mask), dim=-1))
        return torch.einsum("bhqk,bhkw->bqhw", share, value).flatten(2)


class InLoops:
    def attention(self, key, query, value, attention_mask):
        rows = []
        for k, q, v, m in zip(key, query, value, attention_mask, strict=True):
            fit = (q @ k.transpose(1, 2) / math.sqrt(q.size(-1))) * m
            rows.append((self.dropout(fit.softmax(-1)) @ v).transpose(0, 1).flatten(1))
        return torch.stack(rows)
