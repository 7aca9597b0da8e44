"""The second add & norm gets the modules of the first.

Hint: There are two frames, each with its own linear layer, dropout and norm.
Read: docs/handout.md, Task 1.3
"""


class SameModulesTwice:
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
            self.attention_dense,
            self.attention_dropout,
            self.attention_layer_norm,
        )
        return result


class Short:
    def forward(self, x, mask):
        first = (self.attention_dense, self.attention_dropout, self.attention_layer_norm)
        last = (self.attention_dense, self.attention_dropout, self.attention_layer_norm)
        a = self.self_attention(x, mask)
        a = self.add_norm(x, a, *first)
        f = self.interm_af(self.interm_dense(a))
        y = self.add_norm(a, f, *last)
        return y
