"""The gradient is not finite: a root where it may be 0.

Hint: The slope of a root grows without limit towards 0, and below it there is none. Where the
result is set to 0 later, the chain rule still multiplies: what is infinity times 0?
Read: Reimers & Gurevych 2019, §3
"""

import torch
from torch.nn import functional as F


class GradientNotFinite:
    def predict_similarity(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        first = self.forward(input_ids_1, attention_mask_1)
        second = self.forward(input_ids_2, attention_mask_2)
        common = first * second
        scores = torch.where(common > 0, common.sqrt(), 0.0).sum(dim=-1)
        return scores


class RootOfMasked:
    def predict_similarity(self, *pair):
        u, v = (
            (self.bert(ids, mask)["last_hidden_state"] * mask[..., None]).square().sqrt().sum(1)
            for ids, mask in (pair[:2], pair[2:])
        )
        return 5 * F.cosine_similarity(self.dropout(u), self.dropout(v))
