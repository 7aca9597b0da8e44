"""One number for the whole batch is returned.

Hint: Every pair has its own label. A mean over the batch is taken later, of the losses.
Read: Reimers & Gurevych 2019, §3
"""

import torch


class BatchAveraged:
    def predict_similarity(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        first = self.forward(input_ids_1, attention_mask_1)
        second = self.forward(input_ids_2, attention_mask_2)
        pair = torch.cat([first, second, (first - second).abs()], dim=-1)
        pair = self.dropout(pair)
        scores = self.similarity(pair)
        scores = scores.mean()
        return scores


class OneDistance:
    def predict_similarity(self, *pair):
        u, v = self.dropout(self(*pair[:2])), self.dropout(self(*pair[2:]))
        return -torch.dist(u, v)
