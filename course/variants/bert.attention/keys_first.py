"""The scores are transposed: keys along the rows."""

import math

from torch.nn import functional as F


class KeysFirst:
    def attention(self, key, query, value, attention_mask):
        scores = key @ query.transpose(-1, -2) / math.sqrt(key.size(-1))
        scores = scores + attention_mask.transpose(-1, -2)
        probabilities = self.dropout(F.softmax(scores, dim=-2))
        context = probabilities.transpose(-1, -2) @ value
        return context.transpose(1, 2).flatten(2)
