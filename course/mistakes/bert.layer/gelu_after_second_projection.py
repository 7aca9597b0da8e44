"""GELU acts after the feed-forward network's second linear layer instead of between the two.

Hint: Its place is between the two linear layers: without it there they are one linear layer.
Read: Vaswani et al. 2017, §3.3
"""

from torch.nn import functional as F


class GeluAfterSecondProjection:
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
        expanded = self.out_dense(expanded)
        expanded = self.interm_af(expanded)
        expanded = self.out_dropout(expanded)
        result = self.out_layer_norm(normed + expanded)
        return result


class WithoutAddNorm:
    def forward(self, hidden, mask):
        a = self.self_attention(hidden, mask)
        a = self.attention_dropout(self.attention_dense(a))
        normed = self.attention_layer_norm(a + hidden)
        f = self.interm_dense(normed)
        o = self.out_dropout(F.gelu(self.out_dense(f)))
        result = self.out_layer_norm(o + normed)
        return result
