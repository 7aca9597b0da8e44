"""Key and query have changed places.

Hint: The function gets the key first and the query second. Each query asks all keys: the rows of
the scores belong to the queries.
Read: Vaswani et al. 2017, §3.2.1
"""

import math

import torch
from torch.nn import functional as F


class KeyQuerySwapped:
    def attention(self, key, query, value, attention_mask):
        scores = key @ query.transpose(-1, -2)
        scores = scores / math.sqrt(self.attention_head_size)
        scores = scores + attention_mask
        probabilities = F.softmax(scores, dim=-1)
        probabilities = self.dropout(probabilities)
        context = probabilities @ value
        context = context.transpose(1, 2)
        context = context.flatten(2)
        return context


class InTheArguments:
    def attention(self, query, key, value, attention_mask):
        fit = torch.einsum("bhqw,bhkw->bhqk", query, key) / key.size(-1) ** 0.5 + attention_mask
        return torch.einsum("bhqk,bhkw->bqhw", self.dropout(fit.softmax(-1)), value).flatten(2)


class OwnKernel:
    def attention(self, key, query, value, attention_mask):
        p = self.dropout.p if self.training else 0.0
        out = F.scaled_dot_product_attention(key, query, value, attention_mask, dropout_p=p)
        return out.transpose(1, 2).reshape(key.size(0), key.size(2), -1)
