"""The linear layer that was passed in is not used.

Hint: After attention it mixes what the heads found; after the feed-forward network it brings the
numbers back to D.
Read: docs/handout.md, Task 1.2
"""


class DenseSkipped:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        output = dropout(output)
        total = input + output
        total = ln_layer(total)
        return total


class OneExpression:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        return ln_layer(input + dropout(output))
