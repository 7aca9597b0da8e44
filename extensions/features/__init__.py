"""How a sentence, or a pair of them, becomes a vector."""
