"""GELU is applied twice.

Hint: There is one activation function in the feed-forward network.
Read: Vaswani et al. 2017, §3.3
"""

from torch.nn import functional as F


class GeluTwice:
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
        expanded = self.interm_af(expanded)
        expanded = self.interm_af(expanded)
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
        f = F.gelu(F.gelu(self.interm_dense(a)))
        y = self.add_norm(a, f, *last)
        return y
