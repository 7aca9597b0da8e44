"""The input is normalised, then added; the sum is not normalised.

Hint: What is normalised is the sum of both.
Read: Vaswani et al. 2017, §3.1
"""


class NormOfInput:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        output = dense_layer(output)
        output = dropout(output)
        input = ln_layer(input)
        total = input + output
        return total


class OneExpression:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        return dropout(dense_layer(output)) + ln_layer(input)
