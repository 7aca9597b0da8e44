"""The arguments are taken in another order than they come in.

Hint: They come sentence by sentence: ids and mask of the first, then ids and mask of the
second.
Read: Reimers & Gurevych 2019, §3
"""

import torch


class IdsAndMaskSwapped:
    def predict_paraphrase(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        first = self.forward(input_ids_1, input_ids_2)
        second = self.forward(attention_mask_1, attention_mask_2)
        pair = torch.cat([first, second, (first - second).abs()], dim=-1)
        pair = self.dropout(pair)
        logits = self.paraphrase(pair)
        logits = logits.squeeze(-1)
        return logits


class OtherOrder:
    def predict_paraphrase(self, ids_a, ids_b, mask_a, mask_b):
        u, v = self(ids_a, mask_a), self(ids_b, mask_b)
        return self.paraphrase(self.dropout(torch.cat((u, v, (u - v).abs()), 1))).flatten()
