"""Words, positions and segments are normalised each for itself, then added.

Hint: The sum of all three is normalised, once.
Read: docs/handout.md, Task 1.4
"""

import torch


class NormOfEach:
    def embed(self, input_ids, token_type_ids=None):
        length = input_ids.size(1)
        if token_type_ids is None:
            token_type_ids = torch.zeros_like(input_ids)
        words = self.word_embedding(input_ids)
        places = self.position_ids[:, :length]
        positions = self.pos_embedding(places)
        segments = self.tk_type_embedding(token_type_ids)
        total = self.embed_layer_norm(words) + self.embed_layer_norm(positions)
        total = total + self.embed_layer_norm(segments)
        total = self.embed_dropout(total)
        return total


class Summed:
    def embed(self, input_ids, token_type_ids=None):
        kinds = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        parts = self.word_embedding(input_ids), self.tk_type_embedding(kinds)
        parts += (self.pos_embedding.weight[: input_ids.size(1)].expand_as(parts[0]),)
        return self.embed_dropout(self.embed_layer_norm(torch.stack(parts)).sum(0))
