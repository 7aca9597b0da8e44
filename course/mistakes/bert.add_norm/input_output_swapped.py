"""The linear layer and dropout act on the input, and the output is added as it is.

Hint: The tensor that came out of the sublayer goes through both; the one that went in is left
alone.
Read: Vaswani et al. 2017, §3.1
"""


class InputOutputSwapped:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        input = dense_layer(input)
        input = dropout(input)
        total = output + input
        total = ln_layer(total)
        return total


class OneExpression:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        return ln_layer(dropout(dense_layer(input)) + output)
