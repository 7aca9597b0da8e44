"""Dropout has a probability of 0.1, whatever the configuration says.

Hint: `self.dropout` was made with the configured probability.
Read: docs/handout.md, Task 1.1
"""

import math

from torch.nn import functional as F


class DropoutRateInCode:
    def attention(self, key, query, value, attention_mask):
        scores = query @ key.transpose(-1, -2)
        scores = scores / math.sqrt(self.attention_head_size)
        scores = scores + attention_mask
        probabilities = F.softmax(scores, dim=-1)
        probabilities = F.dropout(probabilities, 0.1, self.training)
        context = probabilities @ value
        context = context.transpose(1, 2)
        context = context.flatten(2)
        return context


class OwnKernel:
    def attention(self, key, query, value, attention_mask):
        p = 0.1 if self.training else 0.0
        out = F.scaled_dot_product_attention(query, key, value, attention_mask, dropout_p=p)
        return out.transpose(1, 2).reshape(key.size(0), key.size(2), -1)
