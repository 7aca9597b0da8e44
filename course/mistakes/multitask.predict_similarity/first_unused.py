"""Only the second sentence counts.

Hint: How alike two sentences are cannot be told from one of them. Does the first vector go into
what the last layer gets?
Read: Reimers & Gurevych 2019, §3
Named: sentence_unused
"""

import torch


class FirstUnused:
    def predict_similarity(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        first = self.forward(input_ids_1, attention_mask_1)
        second = self.forward(input_ids_2, attention_mask_2)
        pair = torch.cat([second, second, (second - second).abs()], dim=-1)
        pair = self.dropout(pair)
        scores = self.similarity(pair)
        scores = scores.squeeze(-1)
        return scores


class CosineWithItself:
    def predict_similarity(self, *pair):
        u, v = self.dropout(self(*pair[:2])), self.dropout(self(*pair[2:]))
        return (v * v).sum(-1)
