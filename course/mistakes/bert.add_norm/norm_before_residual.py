"""The output is normalised before the input is added.

Hint: What is normalised is the sum. (Norm first is what many later models do, and elsewhere in the
layer; BERT does not.)
Read: Vaswani et al. 2017, §3.1
"""

import torch
from torch.nn import functional as F


class NormBeforeResidual:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        output = dense_layer(output)
        output = dropout(output)
        output = ln_layer(output)
        total = input + output
        return total


class OneExpression:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        return input + ln_layer(dropout(dense_layer(output)))


class Functions:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        projected = torch.dropout(dense_layer(output), dropout.p, self.training)
        shape = ln_layer.normalized_shape
        normed = F.layer_norm(projected, shape, ln_layer.weight, ln_layer.bias, ln_layer.eps)
        return normed.add_(input)
