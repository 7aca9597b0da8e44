"""Dropout acts in evaluation, too.

Hint: The module that is passed in knows by itself whether the model trains. A function of torch, or
a new nn.Dropout made on the spot, does not.
Read: docs/handout.md, Task 1.2
"""

import torch
from torch import nn
from torch.nn import functional as F


class DropoutInEvaluation:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        output = dense_layer(output)
        output = F.dropout(output, dropout.p)
        total = input + output
        total = ln_layer(total)
        return total


class MadeOnTheSpot:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        return ln_layer(nn.Dropout(dropout.p)(dense_layer(output)) + input)


class TorchsOwn:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        projected = F.linear(output, dense_layer.weight, dense_layer.bias)
        return ln_layer(torch.dropout(projected, dropout.p, True) + input)
