"""Loops over sentences, and over heads."""

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


class OneLoop:
    def attention(self, key, query, value, attention_mask):
        rows = []
        for k, q, v, m in zip(key, query, value, attention_mask, strict=True):
            fit = q @ k.transpose(1, 2) / math.sqrt(q.size(-1)) + m
            rows.append((self.dropout(fit.softmax(-1)) @ v).transpose(0, 1).flatten(1))
        return torch.stack(rows)
