"""The word embeddings are multiplied by √D.

Hint: Vaswani et al. do so (§3.4); BERT does not.
Read: Devlin et al. 2019, figure 2
"""

import math

import torch
from torch.nn import functional as F


class WordsScaled:
    def embed(self, input_ids, token_type_ids=None):
        length = input_ids.size(1)
        if token_type_ids is None:
            token_type_ids = torch.zeros_like(input_ids)
        words = self.word_embedding(input_ids)
        words = words * math.sqrt(self.config.hidden_size)
        places = self.position_ids[:, :length]
        positions = self.pos_embedding(places)
        segments = self.tk_type_embedding(token_type_ids)
        total = words + positions
        total = total + segments
        total = self.embed_layer_norm(total)
        total = self.embed_dropout(total)
        return total


class FromTheTables:
    def embed(self, input_ids, token_type_ids=None):
        kinds = input_ids * 0 if token_type_ids is None else token_type_ids
        x = F.embedding(input_ids, self.word_embedding.weight)
        p = self.pos_embedding.weight[: input_ids.size(1)]
        s = self.tk_type_embedding.weight[kinds]
        total = x * x.size(-1) ** 0.5 + p + s
        norm = self.embed_layer_norm
        normed = F.layer_norm(total, total.shape[-1:], norm.weight, norm.bias, norm.eps)
        return F.dropout(normed, self.embed_dropout.p, self.training)
