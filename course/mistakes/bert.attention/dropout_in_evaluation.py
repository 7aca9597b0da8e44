"""Dropout acts in evaluation, too.

Hint: `self.dropout` knows by itself whether the model trains. A function of torch, or a new
nn.Dropout made on the spot, does not: it believes it is training.
Read: docs/handout.md, Task 1.1
"""

import math

import torch
from torch import nn
from torch.nn import functional as F


class DropoutInEvaluation:
    def attention(self, key, query, value, attention_mask):
        scores = query @ key.transpose(-1, -2)
        scores = scores / math.sqrt(self.attention_head_size)
        scores = scores + attention_mask
        probabilities = F.softmax(scores, dim=-1)
        probabilities = F.dropout(probabilities, self.dropout.p)
        context = probabilities @ value
        context = context.transpose(1, 2)
        context = context.flatten(2)
        return context


class OwnKernel:
    def attention(self, key, query, value, attention_mask):
        out = F.scaled_dot_product_attention(
            query, key, value, attn_mask=attention_mask, dropout_p=self.dropout.p
        )
        return out.transpose(1, 2).reshape(key.size(0), key.size(2), -1)


class MadeOnTheSpot:
    def attention(self, key, query, value, attention_mask):
        fit = torch.einsum("bhqw,bhkw->bhqk", query, key) / key.size(-1) ** 0.5 + attention_mask
        share = nn.Dropout(self.dropout.p)(nn.Softmax(dim=-1)(fit))
        return torch.einsum("bhqk,bhkw->bqhw", share, value).flatten(2)
