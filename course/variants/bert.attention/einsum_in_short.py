"""Products by einsum, in two lines and in three."""

import torch


class TwoLines:
    def attention(self, key, query, value, attention_mask):
        fit = torch.einsum("bhqw,bhkw->bhqk", query, key) / key.size(-1) ** 0.5 + attention_mask
        return torch.einsum("bhqk,bhkw->bqhw", self.dropout(fit.softmax(-1)), value).flatten(2)


class ThreeLines:
    def attention(self, key, query, value, attention_mask):
        fit = torch.einsum("bhqw,bhkw->bhqk", query, key) / key.size(-1) ** 0.5
        share = self.dropout(torch.softmax(fit + attention_mask, dim=-1))
        return torch.einsum("bhqk,bhkw->bqhw", share, value).flatten(2)
