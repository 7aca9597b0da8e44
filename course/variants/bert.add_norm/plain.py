"""The formula, one step a line."""


class Plain:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        output = dense_layer(output)
        output = dropout(output)
        total = input + output
        total = ln_layer(total)
        return total
