"""Attention's linear layer is applied twice: in this function and again by add & norm.

Hint: add_norm applies the linear layer that it is given.
Read: docs/handout.md, Task 1.3
"""

from torch.nn import functional as F


class AttentionsDenseTwice:
    def forward(self, hidden_states, attention_mask):
        attended = self.self_attention(hidden_states, attention_mask)
        attended = self.attention_dense(attended)
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
        a = self.attention_dense(self.self_attention(x, mask))
        a = self.add_norm(x, a, *first)
        f = self.interm_af(self.interm_dense(a))
        y = self.add_norm(a, f, *last)
        return y


class WithoutAddNorm:
    def forward(self, hidden, mask):
        a = self.self_attention(hidden, mask)
        a = self.attention_dropout(self.attention_dense(self.attention_dense(a)))
        normed = self.attention_layer_norm(a + hidden)
        f = F.gelu(self.interm_dense(normed))
        o = self.out_dropout(self.out_dense(f))
        result = self.out_layer_norm(o + normed)
        return result
