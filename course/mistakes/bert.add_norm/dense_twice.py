"""The linear layer is applied twice.

Hint: Once is enough: what came out of the sublayer goes through it, then through dropout.
Read: docs/handout.md, Task 1.2
"""


class DenseTwice:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        output = dense_layer(output)
        output = dense_layer(output)
        output = dropout(output)
        total = input + output
        total = ln_layer(total)
        return total


class OneExpression:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        return ln_layer(input + dropout(dense_layer(dense_layer(output))))
