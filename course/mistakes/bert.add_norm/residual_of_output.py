"""What is added is the sublayer's output as it came, not the sublayer's input.

Hint: The residual connection leads around the sublayer: it carries what went in.
Read: Vaswani et al. 2017, §3.1
"""


class ResidualOfOutput:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        input = output
        output = dense_layer(output)
        output = dropout(output)
        total = input + output
        total = ln_layer(total)
        return total


class OneExpression:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        return ln_layer(output + dropout(dense_layer(output)))
