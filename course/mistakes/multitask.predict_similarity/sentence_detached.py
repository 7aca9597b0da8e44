"""One of the two sentences is cut off from BERT, so it learns from the other one only.

Hint: Both vectors come from the same BERT, and the loss has something to say to it about both.
Read: Reimers & Gurevych 2019, §3
"""

import torch
from torch.nn import functional as F


class SentenceDetached:
    def predict_similarity(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        first = self.forward(input_ids_1, attention_mask_1)
        second = self.forward(input_ids_2, attention_mask_2).detach()
        pair = torch.cat([first, second, (first - second).abs()], dim=-1)
        pair = self.dropout(pair)
        scores = self.similarity(pair)
        scores = scores.squeeze(-1)
        return scores


class CosineWithConstant:
    def predict_similarity(self, *pair):
        with torch.no_grad():
            u = self.dropout(self(*pair[:2]))
        return F.cosine_similarity(u, self.dropout(self(*pair[2:])))
