"""The scores are divided by √D, the hidden size, instead of √W, the width of one head.

Hint: Each score is a product of two vectors of one head. How long are these?
Read: Vaswani et al. 2017, §3.2.1
"""

import math

import torch
from torch import nn
from torch.nn import functional as F


class ScaleByHiddenSize:
    def attention(self, key, query, value, attention_mask):
        scores = query @ key.transpose(-1, -2)
        scores = scores / math.sqrt(self.all_head_size)
        scores = scores + attention_mask
        probabilities = F.softmax(scores, dim=-1)
        probabilities = self.dropout(probabilities)
        context = probabilities @ value
        context = context.transpose(1, 2)
        context = context.flatten(2)
        return context


class Merged:
    def attention(self, key, query, value, attention_mask):
        batch, heads, length, width = query.shape
        q, k, v = (x.reshape(batch * heads, length, width) for x in (query, key, value))
        s = torch.bmm(q * (heads * width) ** -0.5, k.transpose(1, 2))
        s = s.view(batch, heads, length, length) + attention_mask
        p = self.dropout(s.softmax(dim=3)).view(batch * heads, length, length)
        o = torch.bmm(p, v).view(batch, heads, length, width)
        return o.permute(0, 2, 1, 3).reshape(batch, length, heads * width)


class WithNumpyLikeRoot:
    def attention(self, key, query, value, attention_mask):
        hidden = key.size(1) * key.size(3)
        energies = torch.einsum("nhid,nhjd->nhij", query, key)
        energies = energies / torch.sqrt(torch.tensor(hidden, dtype=key.dtype))
        shares = self.dropout(nn.Softmax(dim=-1)(energies + attention_mask))
        return torch.einsum("nhij,nhjd->nihd", shares, value).flatten(start_dim=2)
