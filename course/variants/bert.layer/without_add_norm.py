"""Both frames written out, add_norm not called."""

from torch.nn import functional as F


class WithoutAddNorm:
    def forward(self, hidden, mask):
        a = self.self_attention(hidden, mask)
        a = self.attention_dropout(self.attention_dense(a))
        normed = self.attention_layer_norm(a + hidden)
        f = F.gelu(self.interm_dense(normed))
        o = self.out_dropout(self.out_dense(f))
        return self.out_layer_norm(o + normed)
