"""Only the word embeddings are normalised; positions and segments are added afterwards.

Hint: The sum of all three is normalised.
Read: docs/handout.md, Task 1.4
"""

import torch
from torch.nn import functional as F


class NormOfWords:
    def embed(self, input_ids, token_type_ids=None):
        length = input_ids.size(1)
        if token_type_ids is None:
            token_type_ids = torch.zeros_like(input_ids)
        words = self.word_embedding(input_ids)
        words = self.embed_layer_norm(words)
        places = self.position_ids[:, :length]
        positions = self.pos_embedding(places)
        segments = self.tk_type_embedding(token_type_ids)
        total = words + positions
        total = total + segments
        total = self.embed_dropout(total)
        return total


class FromTheTables:
    def embed(self, input_ids, token_type_ids=None):
        kinds = input_ids * 0 if token_type_ids is None else token_type_ids
        x = F.embedding(input_ids, self.word_embedding.weight)
        p = self.pos_embedding.weight[: input_ids.size(1)]
        s = self.tk_type_embedding.weight[kinds]
        total = x + p + s
        norm = self.embed_layer_norm
        normed = F.layer_norm(x, x.shape[-1:], norm.weight, norm.bias, norm.eps) + p + s
        return F.dropout(normed, self.embed_dropout.p, self.training)
