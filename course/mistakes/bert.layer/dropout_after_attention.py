"""Dropout acts on attention's result before add & norm, which has a dropout of its own.

Hint: add_norm applies the dropout that it is given.
Read: Vaswani et al. 2017, §5.4
"""

from torch.nn import functional as F


class DropoutAfterAttention:
    def forward(self, hidden_states, attention_mask):
        attended = self.self_attention(hidden_states, attention_mask)
        attended = self.attention_dropout(attended)
        normed = self.add_norm(
            hidden_states,
            attended,
            self.attention_dense,
            self.attention_dropout,
            self.attention_layer_norm,
        )
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
        a = F.dropout(self.self_attention(x, mask), self.attention_dropout.p, self.training)
        a = self.add_norm(x, a, *first)
        f = self.interm_af(self.interm_dense(a))
        y = self.add_norm(a, f, *last)
        return y
