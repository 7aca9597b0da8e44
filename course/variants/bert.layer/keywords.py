"""Arguments by keyword, the feed-forward network as nn.Sequential."""

from torch import nn


class Keywords:
    def forward(self, hidden_states, attention_mask):
        attended = self.self_attention(hidden_states=hidden_states, attention_mask=attention_mask)
        normed = self.add_norm(
            output=attended,
            input=hidden_states,
            ln_layer=self.attention_layer_norm,
            dropout=self.attention_dropout,
            dense_layer=self.attention_dense,
        )
        feed_forward = nn.Sequential(self.interm_dense, self.interm_af)
        return self.add_norm(
            normed, feed_forward(normed), self.out_dense, self.out_dropout, self.out_layer_norm
        )
