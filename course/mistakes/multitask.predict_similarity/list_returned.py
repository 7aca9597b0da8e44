"""A list of numbers is returned, not a tensor.

Hint: A list knows nothing of the operations that made it, so the loss has no gradient. Who
turns results into lists, and when?
Read: Reimers & Gurevych 2019, §3
Named: not_a_tensor
"""

import torch
from torch.nn import functional as F


class ListReturned:
    def predict_similarity(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        first = self.forward(input_ids_1, attention_mask_1)
        second = self.forward(input_ids_2, attention_mask_2)
        pair = torch.cat([first, second, (first - second).abs()], dim=-1)
        pair = self.dropout(pair)
        scores = self.similarity(pair)
        scores = scores.squeeze(-1).tolist()
        return scores


class Numpy:
    def predict_similarity(self, *pair):
        u, v = self.dropout(self(*pair[:2])), self.dropout(self(*pair[2:]))
        return (5 * F.cosine_similarity(u, v)).detach().numpy()
