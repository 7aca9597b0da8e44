"""Dropout acts on the scores instead of the probabilities.

Hint: A score of zero is no missing weight: after the softmax it still gets its share, padding
included. Dropout comes after the softmax.
Read: Vaswani et al. 2017, §5.4
"""

import math

import torch
from torch.nn import functional as F


class DropoutOnScores:
    def attention(self, key, query, value, attention_mask):
        scores = query @ key.transpose(-1, -2)
        scores = scores / math.sqrt(self.attention_head_size)
        scores = scores + attention_mask
        scores = self.dropout(scores)
        probabilities = F.softmax(scores, dim=-1)
        context = probabilities @ value
        context = context.transpose(1, 2)
        context = context.flatten(2)
        return context


class OneExpression:
    def attention(self, key, query, value, attention_mask):
        fit = torch.einsum("bhqw,bhkw->bhqk", query, key) / key.size(-1) ** 0.5 + attention_mask
        share = torch.softmax(F.dropout(fit, self.dropout.p, self.training), dim=-1)
        return torch.einsum("bhqk,bhkw->bqhw", share, value).flatten(2)


class InLoops:
    def attention(self, key, query, value, attention_mask):
        rows = []
        for k, q, v, m in zip(key, query, value, attention_mask, strict=True):
            fit = self.dropout(q @ k.transpose(1, 2) / math.sqrt(q.size(-1)) + m)
            rows.append((fit.softmax(-1) @ v).transpose(0, 1).flatten(1))
        return torch.stack(rows)
