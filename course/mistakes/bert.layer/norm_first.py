"""The input is normalised before attention, and attention's add & norm follows all the same.

Hint: BERT normalises after each sum and nowhere else. Pictures of newer models, which normalise
first, don't apply.
Read: Vaswani et al. 2017, figure 1
"""


class NormFirst:
    def forward(self, hidden_states, attention_mask):
        attended = self.self_attention(self.attention_layer_norm(hidden_states), attention_mask)
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
        a = self.self_attention(self.attention_layer_norm(x), mask)
        a = self.add_norm(x, a, *first)
        f = self.interm_af(self.interm_dense(a))
        y = self.add_norm(a, f, *last)
        return y
