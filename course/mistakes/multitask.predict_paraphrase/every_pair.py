"""Every first sentence is compared with every second one: (B, B).

Hint: Row i of the first sentences belongs to row i of the second ones. Which operation compares
row by row?
Read: Reimers & Gurevych 2019, §3
"""

from torch.nn import functional as F


class EveryPair:
    def predict_paraphrase(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        first = self.forward(input_ids_1, attention_mask_1)
        second = self.forward(input_ids_2, attention_mask_2)
        logits = first @ second.transpose(0, 1)
        return logits


class Broadcast:
    def predict_paraphrase(self, *pair):
        u, v = self.dropout(self(*pair[:2])), self.dropout(self(*pair[2:]))
        return F.cosine_similarity(u.unsqueeze(1), v.unsqueeze(0), dim=-1)
