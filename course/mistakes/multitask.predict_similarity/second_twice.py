"""The second sentence is read twice, the first never.

Hint: Look at each call: do ids and mask of the first sentence come in anywhere?
Read: Reimers & Gurevych 2019, §3
Named: one_sentence_twice
"""

import torch


class SecondTwice:
    def predict_similarity(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        first = self.forward(input_ids_2, attention_mask_2)
        second = self.forward(input_ids_2, attention_mask_2)
        pair = torch.cat([first, second, (first - second).abs()], dim=-1)
        pair = self.dropout(pair)
        scores = self.similarity(pair)
        scores = scores.squeeze(-1)
        return scores


class MisreadArguments:
    def predict_similarity(self, *pair):
        u, v = self(*pair[2:]), self(*pair[-2:])
        return self.similarity(self.dropout(torch.cat((u, v, u * v), -1))).flatten()
