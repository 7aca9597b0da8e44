"""The first add & norm is missing: attention's result goes right into the feed-forward network.

Hint: Both sublayers stand in the same frame: linear layer, dropout, sum, norm.
Read: Vaswani et al. 2017, figure 1
"""

from torch.nn import functional as F


class AttentionNotAdded:
    def forward(self, hidden_states, attention_mask):
        attended = self.self_attention(hidden_states, attention_mask)
        normed = attended
        expanded = self.interm_dense(normed)
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
        f = self.interm_af(self.interm_dense(a))
        y = self.add_norm(a, f, *last)
        return y


class WithoutAddNorm:
    def forward(self, hidden, mask):
        a = self.self_attention(hidden, mask)
        f = F.gelu(self.interm_dense(a))
        o = self.out_dropout(self.out_dense(f))
        result = self.out_layer_norm(o + a)
        return result
