"""Everything is computed in float32."""

import math


class AllInFloat32:
    def attention(self, key, query, value, attention_mask):
        key, query, value = key.float(), query.float(), value.float()
        mask = attention_mask.clamp(min=-1e30).float()
        scores = query @ key.transpose(-1, -2) / math.sqrt(key.size(-1)) + mask
        context = self.dropout(scores.softmax(-1)) @ value
        return context.transpose(1, 2).flatten(2)
