"""PyTorch's own scaled_dot_product_attention."""

from torch.nn import functional as F


class Reshaped:
    def attention(self, key, query, value, attention_mask):
        p = self.dropout.p if self.training else 0.0
        out = F.scaled_dot_product_attention(query, key, value, attention_mask, dropout_p=p)
        return out.transpose(1, 2).reshape(key.size(0), key.size(2), -1)
