"""The positions are counted from 1 instead of 0.

Hint: [CLS] stands at place 0; a pretrained model knows that place by that row.
Read: docs/handout.md, Task 1.4
"""

import torch
from torch.nn import functional as F


class PositionsFromOne:
    def embed(self, input_ids, token_type_ids=None):
        length = input_ids.size(1)
        if token_type_ids is None:
            token_type_ids = torch.zeros_like(input_ids)
        words = self.word_embedding(input_ids)
        places = self.position_ids[:, 1 : length + 1]
        positions = self.pos_embedding(places)
        segments = self.tk_type_embedding(token_type_ids)
        total = words + positions
        total = total + segments
        total = self.embed_layer_norm(total)
        total = self.embed_dropout(total)
        return total


class Counted:
    def embed(self, input_ids, token_type_ids=None):
        batch, length = input_ids.shape
        zeros = (
            torch.zeros(batch, length, dtype=torch.long)
            if token_type_ids is None
            else token_type_ids
        )
        positions = torch.arange(1, length + 1).expand(batch, -1)
        words, places = self.word_embedding(input_ids), self.pos_embedding(positions)
        total = words + places + self.tk_type_embedding(zeros)
        return self.embed_dropout(self.embed_layer_norm(total))


class FromTheTables:
    def embed(self, input_ids, token_type_ids=None):
        kinds = input_ids * 0 if token_type_ids is None else token_type_ids
        x = F.embedding(input_ids, self.word_embedding.weight)
        p = self.pos_embedding.weight[1:][: input_ids.size(1)]
        s = self.tk_type_embedding.weight[kinds]
        total = x + p + s
        norm = self.embed_layer_norm
        normed = F.layer_norm(total, total.shape[-1:], norm.weight, norm.bias, norm.eps)
        return F.dropout(normed, self.embed_dropout.p, self.training)
