"""There is no dropout.

Hint: The second module that is passed in is not used.
Read: Vaswani et al. 2017, §5.4
"""

import torch
from torch.nn import functional as F


class NoDropout:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        output = dense_layer(output)
        total = input + output
        total = ln_layer(total)
        return total


class OneExpression:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        return ln_layer(dense_layer(output) + input)


class Functions:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        total = torch.addmm(
            input.flatten(0, 1) + dense_layer.bias, output.flatten(0, 1), dense_layer.weight.T
        ).view_as(input)
        return F.layer_norm(total, total.shape[-1:], ln_layer.weight, ln_layer.bias, ln_layer.eps)
