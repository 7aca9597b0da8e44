"""The two are subtracted, not added.

Hint: The formula has a sum: what came in, plus what the sublayer made of it.
Read: Vaswani et al. 2017, §3.1
"""

import torch


class ResidualSubtracted:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        output = dense_layer(output)
        output = dropout(output)
        total = input - output
        total = ln_layer(total)
        return total


class Weighted:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        return ln_layer(torch.add(input, dropout(dense_layer(output)), alpha=-1))
