"""Dropout is applied at evaluation, too, so results change from call to call.

Hint: nn.Dropout knows by itself whether the model trains; a function like F.dropout has to be
told.
Read: docs/handout.md, Task 1.2
"""

import torch
from torch.nn import functional as F


class DropoutAlwaysOn:
    def predict_similarity(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        first = self.forward(input_ids_1, attention_mask_1)
        second = self.forward(input_ids_2, attention_mask_2)
        pair = torch.cat([first, second, (first - second).abs()], dim=-1)
        pair = F.dropout(pair, 0.3)
        scores = self.similarity(pair)
        scores = scores.squeeze(-1)
        return scores


class OfEachVector:
    def predict_similarity(self, *pair):
        u, v = (F.dropout(self(*one), p=0.1, training=True) for one in (pair[:2], pair[2:]))
        return 5 * F.cosine_similarity(u, v)
