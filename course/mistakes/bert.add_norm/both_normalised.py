"""Input and output are normalised each for itself, then added.

Hint: The norm acts once, on the sum: only so has the result mean 0 and variance 1 before scale and
shift.
Read: Vaswani et al. 2017, §3.1
"""

import torch


class BothNormalised:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        output = dense_layer(output)
        output = dropout(output)
        output = ln_layer(output)
        input = ln_layer(input)
        total = input + output
        return total


class Stacked:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        return ln_layer(torch.stack((input, dropout(dense_layer(output))))).sum(0)
