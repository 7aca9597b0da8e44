"""Dropout acts on the input instead of what the linear layer gives.

Hint: The residual connection has to stay whole; dropout is for the sublayer's part of the sum.
Read: Vaswani et al. 2017, §5.4
"""


class DropoutOnInput:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        output = dense_layer(output)
        input = dropout(input)
        total = input + output
        total = ln_layer(total)
        return total


class OneExpression:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        return ln_layer(dense_layer(output) + dropout(input))
