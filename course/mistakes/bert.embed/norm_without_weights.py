"""The norm's own weight and bias are not used.

Hint: A LayerNorm learns a scale and a shift; `embed_layer_norm` has them.
Read: docs/handout.md, Task 1.4
"""

import torch
from torch import nn
from torch.nn import functional as F


class NormWithoutWeights:
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
        total = F.layer_norm(total, total.shape[-1:], eps=self.config.layer_norm_eps)
        total = self.embed_dropout(total)
        return total


class MadeOnTheSpot:
    def embed(self, input_ids, token_type_ids=None):
        kinds = input_ids * 0 if token_type_ids is None else token_type_ids
        x = F.embedding(input_ids, self.word_embedding.weight)
        p = self.pos_embedding.weight[: input_ids.size(1)]
        s = self.tk_type_embedding.weight[kinds]
        total = x + p + s
        normed = nn.LayerNorm(x.size(-1), eps=self.embed_layer_norm.eps)(total)
        return F.dropout(normed, self.embed_dropout.p, self.training)
