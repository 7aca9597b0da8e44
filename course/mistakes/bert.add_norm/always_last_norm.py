"""The norm is always the one after the feed-forward network, whatever was passed in.

Hint: The function is called twice in a layer, each time with other modules. Use those of the
caller.
Read: docs/handout.md, Task 1.2
"""


class AlwaysLastNorm:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        output = dense_layer(output)
        output = dropout(output)
        total = input + output
        total = self.out_layer_norm(total)
        return total


class OneExpression:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        return self.out_layer_norm(dropout(dense_layer(output)) + input)
