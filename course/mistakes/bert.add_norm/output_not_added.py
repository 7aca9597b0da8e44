"""Only the input is normalised: what the sublayer made is not in the sum.

Hint: The linear layer and dropout are computed, but their result is used nowhere.
Read: Vaswani et al. 2017, §3.1
"""


class OutputNotAdded:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        output = dense_layer(output)
        output = dropout(output)
        total = input
        total = ln_layer(total)
        return total


class OneExpression:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        return ln_layer(input)
