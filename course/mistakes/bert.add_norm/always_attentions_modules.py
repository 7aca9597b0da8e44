"""The layers are always those after attention, whatever was passed in.

Hint: The function is called twice in a layer, each time with other modules. Use those of the
caller.
Read: docs/handout.md, Task 1.2
"""


class AlwaysAttentionsModules:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        output = self.attention_dense(output)
        output = dropout(output)
        total = input + output
        total = self.attention_layer_norm(total)
        return total


class OneExpression:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        dropped = self.attention_dropout(self.attention_dense(output))
        return self.attention_layer_norm(dropped + input)
