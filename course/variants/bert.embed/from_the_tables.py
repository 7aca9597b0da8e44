"""Rows of the tables' weights, torch's functions."""

from torch.nn import functional as F


class FromTheTables:
    def embed(self, input_ids, token_type_ids=None):
        kinds = input_ids * 0 if token_type_ids is None else token_type_ids
        x = F.embedding(input_ids, self.word_embedding.weight)
        p = self.pos_embedding.weight[: input_ids.size(1)]
        s = self.tk_type_embedding.weight[kinds]
        total = x + p + s
        norm = self.embed_layer_norm
        normed = F.layer_norm(total, total.shape[-1:], norm.weight, norm.bias, norm.eps)
        return F.dropout(normed, self.embed_dropout.p, self.training)
