"""Key and value have changed places.

Hint: Queries are compared with keys; what is summed up, with the weights found, are the values.
Look at the order of the arguments.
Read: Vaswani et al. 2017, §3.2.1
"""

import math

from torch.nn import functional as F


class KeyValueSwapped:
    def attention(self, key, query, value, attention_mask):
        scores = query @ value.transpose(-1, -2)
        scores = scores / math.sqrt(self.attention_head_size)
        scores = scores + attention_mask
        probabilities = F.softmax(scores, dim=-1)
        probabilities = self.dropout(probabilities)
        context = probabilities @ key
        context = context.transpose(1, 2)
        context = context.flatten(2)
        return context


class InTheArguments:
    def attention(self, value, query, key, attention_mask):
        p = self.dropout.p if self.training else 0.0
        out = F.scaled_dot_product_attention(query, key, value, attention_mask, dropout_p=p)
        return out.transpose(1, 2).reshape(key.size(0), key.size(2), -1)
