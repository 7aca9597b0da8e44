"""ReLU stands where BERT has GELU.

Hint: Vaswani et al. have ReLU in this place; BERT was trained with GELU, and `interm_af` is it.
Read: Hendrycks & Gimpel 2016, §2
"""

from torch import nn
from torch.nn import functional as F


class Relu:
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
        expanded = F.relu(expanded)
        result = self.add_norm(
            normed,
            expanded,
            self.out_dense,
            self.out_dropout,
            self.out_layer_norm,
        )
        return result


class Clamped:
    def forward(self, x, mask):
        first = (self.attention_dense, self.attention_dropout, self.attention_layer_norm)
        last = (self.out_dense, self.out_dropout, self.out_layer_norm)
        a = self.self_attention(x, mask)
        a = self.add_norm(x, a, *first)
        f = self.interm_dense(a).clamp(min=0)
        y = self.add_norm(a, f, *last)
        return y


class WithoutAddNorm:
    def forward(self, hidden, mask):
        a = self.self_attention(hidden, mask)
        a = self.attention_dropout(self.attention_dense(a))
        normed = self.attention_layer_norm(a + hidden)
        f = nn.ReLU()(self.interm_dense(normed))
        o = self.out_dropout(self.out_dense(f))
        result = self.out_layer_norm(o + normed)
        return result
