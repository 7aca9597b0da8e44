"""There is no layer norm.

Hint: Without it the numbers grow from layer to layer. The third module that is passed in is not
used.
Read: Vaswani et al. 2017, §3.1
"""


class NoNorm:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        output = dense_layer(output)
        output = dropout(output)
        total = input + output
        return total


class OneExpression:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        return dropout(dense_layer(output)).add(input)
