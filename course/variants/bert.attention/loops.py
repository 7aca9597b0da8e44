"""Loops over sentences and heads."""

import math

import torch


class Loops:
    def attention(self, key, query, value, attention_mask):
        sentences = []
        for b in range(key.size(0)):
            heads = []
            for h in range(key.size(1)):
                scores = query[b, h] @ key[b, h].T / math.sqrt(key.size(-1)) + attention_mask[b, 0]
                heads.append(self.dropout(scores.softmax(-1)) @ value[b, h])
            sentences.append(torch.cat(heads, dim=-1))
        return torch.stack(sentences)
