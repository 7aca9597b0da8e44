"""The linear layer acts on the sum of input and output.

Hint: It belongs to the sublayer: it mixes what came out of it. The input passes by.
Read: Vaswani et al. 2017, §3.1
"""


class DenseOfSum:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        total = input + output
        total = dense_layer(total)
        total = dropout(total)
        total = ln_layer(total)
        return total


class OneExpression:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        return ln_layer(dropout(dense_layer(output + input)))
