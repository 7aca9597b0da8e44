"""There is no softmax: the scores themselves are the weights.

Hint: Scores may be negative and have any sum. Weights are positive and sum to one.
Read: Vaswani et al. 2017, §3.2.1
"""

import math

import torch


class NoSoftmax:
    def attention(self, key, query, value, attention_mask):
        scores = query @ key.transpose(-1, -2)
        scores = scores / math.sqrt(self.attention_head_size)
        scores = scores + attention_mask
        probabilities = scores
        probabilities = self.dropout(probabilities)
        context = probabilities @ value
        context = context.transpose(1, 2)
        context = context.flatten(2)
        return context


class OneExpression:
    def attention(self, key, query, value, attention_mask):
        fit = torch.einsum("bhqw,bhkw->bhqk", query, key) / key.size(-1) ** 0.5 + attention_mask
        return torch.einsum("bhqk,bhkw->bqhw", self.dropout(fit), value).flatten(2)
