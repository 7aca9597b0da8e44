"""The formula, one step a line."""


class Plain:
    def forward(self, hidden_states):
        both = self.interm_dense(hidden_states)
        value, gate = both.chunk(2, dim=-1)
        value = self.interm_af(value)
        product = value * gate
        product = self.out_dropout(product)
        return self.out_dense(product)
