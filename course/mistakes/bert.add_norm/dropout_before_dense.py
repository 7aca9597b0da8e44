"""Dropout comes before the linear layer.

Hint: It acts on what the linear layer gives, right before the sum.
Read: Vaswani et al. 2017, §5.4
"""


class DropoutBeforeDense:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        output = dropout(output)
        output = dense_layer(output)
        total = input + output
        total = ln_layer(total)
        return total


class OneExpression:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        return ln_layer(input + dense_layer(dropout(output)))
