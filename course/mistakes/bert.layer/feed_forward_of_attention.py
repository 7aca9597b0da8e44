"""The feed-forward network gets what attention gave, before add & norm.

Hint: The sublayers stand one after the other: the first add & norm's result goes into the second
sublayer.
Read: Vaswani et al. 2017, figure 1
"""


class FeedForwardOfAttention:
    def forward(self, hidden_states, attention_mask):
        attended = self.self_attention(hidden_states, attention_mask)
        normed = self.add_norm(
            hidden_states,
            attended,
            self.attention_dense,
            self.attention_dropout,
            self.attention_layer_norm,
        )
        expanded = self.interm_dense(attended)
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
        b = a
        a = self.add_norm(x, a, *first)
        f = self.interm_af(self.interm_dense(b))
        y = self.add_norm(a, f, *last)
        return y
