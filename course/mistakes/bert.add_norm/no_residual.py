"""The input is not added: there is no residual connection.

Hint: Because the input is added, a layer only has to learn what to change, and gradients have a
short way down.
Read: Vaswani et al. 2017, §3.1
"""

from torch.nn import functional as F


class NoResidual:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        output = dense_layer(output)
        output = dropout(output)
        total = output
        total = ln_layer(total)
        return total


class OneExpression:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        return ln_layer(dropout(dense_layer(output)))


class Functions:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        projected = F.linear(output, dense_layer.weight, dense_layer.bias)
        projected = F.dropout(projected, dropout.p, self.training)
        return F.layer_norm(
            projected, ln_layer.normalized_shape, ln_layer.weight, ln_layer.bias, ln_layer.eps
        )
