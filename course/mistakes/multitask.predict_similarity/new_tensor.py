"""The scores are copied into a new tensor, which is cut off from all parameters.

Hint: Gradients go back along the operations that made a tensor. Which operations made this one?
Read: Reimers & Gurevych 2019, §3
Named: cut_off
"""

import torch
from torch.nn import functional as F


class NewTensor:
    def predict_similarity(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        first = self.forward(input_ids_1, attention_mask_1)
        second = self.forward(input_ids_2, attention_mask_2)
        pair = torch.cat([first, second, (first - second).abs()], dim=-1)
        pair = self.dropout(pair)
        scores = self.similarity(pair)
        scores = torch.tensor([score.item() for score in scores])
        return scores


class ByNumpy:
    def predict_similarity(self, *pair):
        u, v = self(*pair[:2]).detach().numpy(), self(*pair[2:]).detach().numpy()
        return torch.from_numpy((u * v).sum(-1))


class Data:
    def predict_similarity(self, *pair):
        u, v = self.dropout(self(*pair[:2])), self.dropout(self(*pair[2:]))
        return 5 * F.cosine_similarity(u, v).data
