"""The first sentence is read twice, the second never.

Hint: Look at each call: do ids and mask of the second sentence come in anywhere?
Read: Reimers & Gurevych 2019, §3
Named: one_sentence_twice
"""

import torch


class FirstTwice:
    def predict_paraphrase(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        first = self.forward(input_ids_1, attention_mask_1)
        second = self.forward(input_ids_1, attention_mask_1)
        pair = torch.cat([first, second, (first - second).abs()], dim=-1)
        pair = self.dropout(pair)
        logits = self.paraphrase(pair)
        logits = logits.squeeze(-1)
        return logits


class Unpacked:
    def predict_paraphrase(self, *pair):
        u, v = (self(*pair[:2]) for _ in range(2))
        return self.paraphrase(self.dropout(torch.cat((u, v, u * v), 1))).flatten()
