"""The mask by masked_fill with −∞; the heads as Hugging Face merges them."""

import torch
from torch import nn


class MaskedFill:
    def attention(self, key, query, value, attention_mask):
        scores = torch.matmul(query, key.permute(0, 1, 3, 2))
        scores /= torch.sqrt(torch.tensor(self.attention_head_size))
        scores = scores.masked_fill(attention_mask < 0, float("-inf"))
        context = torch.matmul(self.dropout(nn.Softmax(dim=-1)(scores)), value)
        context = context.permute(0, 2, 1, 3).contiguous()
        return context.view(context.size(0), context.size(1), -1)
