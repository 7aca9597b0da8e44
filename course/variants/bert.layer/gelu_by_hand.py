"""GELU from the error function; helper tuples, one name for all."""

import math

import torch


class GeluByHand:
    def forward(self, x, mask):
        first = (self.attention_dense, self.attention_dropout, self.attention_layer_norm)
        last = (self.out_dense, self.out_dropout, self.out_layer_norm)
        a = self.self_attention(x, mask)
        a = self.add_norm(x, a, *first)
        f = self.interm_dense(a)
        f = 0.5 * f * (1 + torch.erf(f / math.sqrt(2)))
        y = self.add_norm(a, f, *last)
        return y
