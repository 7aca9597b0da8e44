"""The segment embeddings are missing.

Hint: With a single sentence all segments are 0, and their vector is not zero.
Read: Devlin et al. 2019, figure 2
"""

from torch.nn import functional as F


class NoSegments:
    def embed(self, input_ids, token_type_ids=None):
        length = input_ids.size(1)
        words = self.word_embedding(input_ids)
        places = self.position_ids[:, :length]
        positions = self.pos_embedding(places)
        total = words + positions
        total = self.embed_layer_norm(total)
        total = self.embed_dropout(total)
        return total


class FromTheTables:
    def embed(self, input_ids, token_type_ids=None):
        x = F.embedding(input_ids, self.word_embedding.weight)
        p = self.pos_embedding.weight[: input_ids.size(1)]
        total = x + p
        norm = self.embed_layer_norm
        normed = F.layer_norm(total, total.shape[-1:], norm.weight, norm.bias, norm.eps)
        return F.dropout(normed, self.embed_dropout.p, self.training)
