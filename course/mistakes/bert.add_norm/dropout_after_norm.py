"""Dropout acts on the result, after the norm.

Hint: It acts on the sublayer's part of the sum, before the sum is made; what the norm gives goes on
as it is.
Read: Vaswani et al. 2017, §5.4
"""

from torch.nn import functional as F


class DropoutAfterNorm:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        output = dense_layer(output)
        total = input + output
        total = ln_layer(total)
        total = dropout(total)
        return total


class OneExpression:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        return F.dropout(ln_layer(dense_layer(output) + input), dropout.p, self.training)
