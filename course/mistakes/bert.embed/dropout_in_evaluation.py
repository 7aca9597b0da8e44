"""Dropout acts in evaluation, too.

Hint: `embed_dropout` knows by itself whether the model trains. A function of torch, or a new
nn.Dropout made on the spot, does not.
Read: docs/handout.md, Task 1.4
"""

import torch
from torch import nn
from torch.nn import functional as F


class DropoutInEvaluation:
    def embed(self, input_ids, token_type_ids=None):
        length = input_ids.size(1)
        if token_type_ids is None:
            token_type_ids = torch.zeros_like(input_ids)
        words = self.word_embedding(input_ids)
        places = self.position_ids[:, :length]
        positions = self.pos_embedding(places)
        segments = self.tk_type_embedding(token_type_ids)
        total = words + positions
        total = total + segments
        total = self.embed_layer_norm(total)
        total = F.dropout(total, self.embed_dropout.p)
        return total


class MadeOnTheSpot:
    def embed(self, input_ids, token_type_ids=None):
        batch, length = input_ids.shape
        zeros = (
            torch.zeros(batch, length, dtype=torch.long)
            if token_type_ids is None
            else token_type_ids
        )
        positions = torch.arange(length)
        words, places = self.word_embedding(input_ids), self.pos_embedding(positions)
        total = words + places + self.tk_type_embedding(zeros)
        return nn.Dropout(self.embed_dropout.p)(self.embed_layer_norm(total))
