"""Which texts a batch has, and which task it is of."""
