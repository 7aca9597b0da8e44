"""The first add & norm gets its two tensors in the wrong order.

Hint: First what went into the sublayer, then what came out of it: only the second goes through the
linear layer.
Read: docs/handout.md, Task 1.2
"""

from torch.nn import functional as F


class ResidualAndResultSwapped:
    def forward(self, hidden_states, attention_mask):
        attended = self.self_attention(hidden_states, attention_mask)
        normed = self.add_norm(
            attended,
            hidden_states,
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
        a = self.self_attention(x, mask)
        a = self.add_norm(a, x, *first)
        f = self.interm_af(self.interm_dense(a))
        y = self.add_norm(a, f, *last)
        return y


class WithoutAddNorm:
    def forward(self, hidden, mask):
        a = self.self_attention(hidden, mask)
        a = a + self.attention_dropout(self.attention_dense(hidden))
        normed = self.attention_layer_norm(a)
        f = F.gelu(self.interm_dense(normed))
        o = self.out_dropout(self.out_dense(f))
        result = self.out_layer_norm(o + normed)
        return result
