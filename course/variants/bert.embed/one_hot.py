"""Pieces as one-hot vectors times the table, the sum of a stack."""

import torch
from torch import nn
from torch.nn import functional as F


class OneHot:
    def embed(self, input_ids, token_type_ids=None):
        kinds = input_ids.new_zeros(input_ids.shape) if token_type_ids is None else token_type_ids
        table = self.word_embedding.weight
        words = F.one_hot(input_ids, len(table)).to(table.dtype) @ table
        places = self.pos_embedding(
            self.position_ids.expand(len(input_ids), -1)[:, : kinds.size(1)]
        )
        total = torch.stack((words, places, self.tk_type_embedding(kinds))).sum(dim=0)
        return nn.Sequential(self.embed_layer_norm, self.embed_dropout)(total)
