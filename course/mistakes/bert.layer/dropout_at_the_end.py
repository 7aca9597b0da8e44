"""Dropout acts on the layer's result.

Hint: add_norm applies the dropout that it is given, to the sublayer's part of the sum. What its
norm gives goes on as it is.
Read: Vaswani et al. 2017, §5.4
"""

from torch.nn import functional as F


class DropoutAtTheEnd:
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
        result = self.add_norm(
            normed,
            expanded,
            self.out_dense,
            self.out_dropout,
            self.out_layer_norm,
        )
        result = self.out_dropout(result)
        return result


class Short:
    def forward(self, x, mask):
        first = (self.attention_dense, self.attention_dropout, self.attention_layer_norm)
        last = (self.out_dense, self.out_dropout, self.out_layer_norm)
        a = self.self_attention(x, mask)
        a = self.add_norm(x, a, *first)
        f = self.interm_af(self.interm_dense(a))
        y = self.add_norm(a, f, *last)
        return F.dropout(y, self.out_dropout.p, self.training)


class WithoutAddNorm:
    def forward(self, hidden, mask):
        a = self.self_attention(hidden, mask)
        a = self.attention_dropout(self.attention_dense(a))
        normed = self.attention_layer_norm(a + hidden)
        f = F.gelu(self.interm_dense(normed))
        o = self.out_dropout(self.out_dense(f))
        result = self.out_layer_norm(o + normed)
        return self.attention_dropout(result)
