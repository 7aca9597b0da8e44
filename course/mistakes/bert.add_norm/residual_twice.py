"""The input is added twice.

Hint: One term of the sum is the input as it is, the other what the sublayer made of it.
Read: Vaswani et al. 2017, §3.1
"""

import torch


class ResidualTwice:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        output = dense_layer(output)
        output = dropout(output)
        total = input + output + input
        total = ln_layer(total)
        return total


class Doubled:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        return ln_layer(torch.add(dropout(dense_layer(output)), input, alpha=2))


class InPlace:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        result = dropout(dense_layer(output))
        for _ in range(2):
            result += input
        return ln_layer(result)
