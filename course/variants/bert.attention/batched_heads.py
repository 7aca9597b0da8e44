"""Heads and sentences as one axis: bmm, baddbmm."""

import math

import torch


class BatchedHeads:
    def attention(self, key, query, value, attention_mask):
        batch, heads, length, width = query.shape
        q, k, v = (x.reshape(batch * heads, length, width) for x in (query, key, value))
        mask = attention_mask.expand(batch, heads, length, length).flatten(0, 1)
        scores = torch.baddbmm(mask, q, k.mT, alpha=1 / math.sqrt(width))
        mixed = torch.bmm(self.dropout(scores.softmax(-1)), v)
        return mixed.view(batch, heads, length, width).transpose(1, 2).reshape(batch, length, -1)
