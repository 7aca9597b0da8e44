"""GELU is approximated by x · sigmoid(1.702 x).

Hint: Pretrained BERT has the exact GELU, with the distribution function of the normal; `interm_af`
is that one.
Read: Hendrycks & Gimpel 2016, §2
"""

import torch
from torch.nn import functional as F


class SigmoidGelu:
    def forward(self, hidden_states, attention_mask):
        attended = self.self_attention(hidden_states, attention_mask)
        normed = self.add_norm(
            hidden_states,
            attended,
            self.attention_dense,
            self.attention_dropout,
            self.attention_layer_norm,
        )
        expanded = self.interm_dense(normed)
        expanded = expanded * torch.sigmoid(1.702 * expanded)
        result = self.add_norm(
            normed,
            expanded,
            self.out_dense,
            self.out_dropout,
            self.out_layer_norm,
        )
        return result


class Short:
    def forward(self, x, mask):
        first = (self.attention_dense, self.attention_dropout, self.attention_layer_norm)
        last = (self.out_dense, self.out_dropout, self.out_layer_norm)
        a = self.self_attention(x, mask)
        a = self.add_norm(x, a, *first)
        f = self.interm_dense(a)
        f = F.silu(1.702 * f) / 1.702
        y = self.add_norm(a, f, *last)
        return y
