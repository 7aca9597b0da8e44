"""The second residual connection carries what attention gave, before add & norm.

Hint: Each sublayer has its own residual connection: what goes into the feed-forward network is what
is added after it.
Read: Vaswani et al. 2017, figure 1
"""


class SecondResidualFromAttention:
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
            attended,
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
        b = a
        a = self.add_norm(x, a, *first)
        f = self.interm_af(self.interm_dense(a))
        y = self.add_norm(b, f, *last)
        return y
