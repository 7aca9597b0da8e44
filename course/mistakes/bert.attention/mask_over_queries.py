"""The mask lies along the axis of the queries instead of the keys.

Hint: Adding one number to a whole row changes nothing in its softmax. It is the padded keys that
must not be looked at: along which axis does (B, 1, 1, L) stretch by itself?
Read: Vaswani et al. 2017, §3.2.3; docs/handout.md, Task 1.1
"""

import math

import torch
from torch.nn import functional as F


class MaskOverQueries:
    def attention(self, key, query, value, attention_mask):
        scores = query @ key.transpose(-1, -2)
        scores = scores / math.sqrt(self.attention_head_size)
        scores = scores + attention_mask.transpose(-1, -2)
        probabilities = F.softmax(scores, dim=-1)
        probabilities = self.dropout(probabilities)
        context = probabilities @ value
        context = context.transpose(1, 2)
        context = context.flatten(2)
        return context


class Reshaped:
    def attention(self, key, query, value, attention_mask):
        batch, _, length, width = key.shape
        fit = torch.einsum("bhqw,bhkw->bhqk", query * width**-0.5, key)
        share = self.dropout((fit + attention_mask.reshape(batch, 1, length, 1)).softmax(-1))
        return torch.einsum("bhqk,bhkw->bqhw", share, value).flatten(2)


class InLoops:
    def attention(self, key, query, value, attention_mask):
        batch = []
        for b in range(key.size(0)):
            heads = []
            for h in range(key.size(1)):
                fit = query[b, h] @ key[b, h].T / math.sqrt(key.size(-1))
                fit = fit + attention_mask[b, 0, 0][:, None]
                heads.append(self.dropout(F.softmax(fit, dim=1)) @ value[b, h])
            batch.append(torch.cat(heads, dim=-1))
        return torch.stack(batch)
