"""Dropout acts on the sum instead of the sublayer's part of it.

Hint: So it also sets numbers of the input to zero; the residual connection has to stay whole.
Read: Vaswani et al. 2017, §5.4
"""

from torch.nn import functional as F


class DropoutOnSum:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        output = dense_layer(output)
        total = input + output
        total = dropout(total)
        total = ln_layer(total)
        return total


class OneExpression:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        return ln_layer(F.dropout(dense_layer(output) + input, dropout.p, self.training))
