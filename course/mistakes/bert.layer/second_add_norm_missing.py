"""The feed-forward network's result gets no add & norm.

Hint: Both sublayers stand in the same frame: linear layer, dropout, sum, norm.
Read: Vaswani et al. 2017, figure 1
"""

from torch.nn import functional as F


class SecondAddNormMissing:
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
        result = self.out_dense(expanded)
        return result


class WithoutAddNorm:
    def forward(self, hidden, mask):
        a = self.self_attention(hidden, mask)
        a = self.attention_dropout(self.attention_dense(a))
        normed = self.attention_layer_norm(a + hidden)
        f = F.gelu(self.interm_dense(normed))
        o = self.out_dense(f)
        result = self.out_layer_norm(o + normed)
        return o
