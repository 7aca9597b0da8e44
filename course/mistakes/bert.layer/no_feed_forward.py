"""There is no feed-forward network: the first add & norm's result is returned.

Hint: A layer has two sublayers; `interm_dense` and `out_dense` are not used.
Read: Vaswani et al. 2017, §3.3
"""


class NoFeedForward:
    def forward(self, hidden_states, attention_mask):
        attended = self.self_attention(hidden_states, attention_mask)
        normed = self.add_norm(
            hidden_states,
            attended,
            self.attention_dense,
            self.attention_dropout,
            self.attention_layer_norm,
        )
        return normed


class Short:
    def forward(self, x, mask):
        first = (self.attention_dense, self.attention_dropout, self.attention_layer_norm)
        last = (self.out_dense, self.out_dropout, self.out_layer_norm)
        a = self.self_attention(x, mask)
        a = self.add_norm(x, a, *first)
        return a


class WithoutAddNorm:
    def forward(self, hidden, mask):
        a = self.self_attention(hidden, mask)
        a = self.attention_dropout(self.attention_dense(a))
        normed = self.attention_layer_norm(a + hidden)
        return normed
