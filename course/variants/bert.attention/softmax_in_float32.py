"""The softmax is computed in float32, the rest is not."""

import math


class SoftmaxInFloat32:
    def attention(self, key, query, value, attention_mask):
        scores = query @ key.transpose(-1, -2) / math.sqrt(key.size(-1))
        floats = (scores + attention_mask).float().softmax(-1)
        context = self.dropout(floats.to(value.dtype)) @ value
        return context.transpose(1, 2).flatten(2)
