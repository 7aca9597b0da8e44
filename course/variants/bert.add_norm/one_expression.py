"""The formula in one line."""


class OneExpression:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        return ln_layer(input + dropout(dense_layer(output)))
