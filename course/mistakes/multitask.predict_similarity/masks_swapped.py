"""Each sentence goes with the mask of the other one.

Hint: A mask says which pieces of one sentence are real. Which mask belongs to which ids?
Read: docs/handout.md, Task 1.1
"""

import torch
from torch.nn import functional as F


class MasksSwapped:
    def predict_similarity(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        first = self.forward(input_ids_1, attention_mask_2)
        second = self.forward(input_ids_2, attention_mask_1)
        pair = torch.cat([first, second, (first - second).abs()], dim=-1)
        pair = self.dropout(pair)
        scores = self.similarity(pair)
        scores = scores.squeeze(-1)
        return scores


class CosineOfSwapped:
    def predict_similarity(self, ids_a, mask_a, ids_b, mask_b):
        v = self.dropout(self.bert(ids_b, attention_mask=mask_a)["pooler_output"])
        u = self.dropout(self.bert(ids_a, attention_mask=mask_b)["pooler_output"])
        return 5 * F.cosine_similarity(u, v)
