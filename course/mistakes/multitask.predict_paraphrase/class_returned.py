"""The class, yes or no, is returned, not a logit.

Hint: Whether the logit is above 0 is for the evaluation to ask. The loss needs the number
before that; rounding has no gradient.
Read: Reimers & Gurevych 2019, §3
"""

import torch


class ClassReturned:
    def predict_paraphrase(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        first = self.forward(input_ids_1, attention_mask_1)
        second = self.forward(input_ids_2, attention_mask_2)
        pair = torch.cat([first, second, (first - second).abs()], dim=-1)
        pair = self.dropout(pair)
        logits = self.paraphrase(pair)
        logits = logits.squeeze(-1)
        logits = logits.sigmoid().round()
        return logits


class Truth:
    def predict_paraphrase(self, *pair):
        u, v = self(*pair[:2]), self(*pair[2:])
        x = self.paraphrase(self.dropout(torch.cat((u, v, (u - v).abs()), 1)))
        return torch.where(x[:, 0] > 0, 1.0, 0.0)


class WholeNumber:
    def predict_paraphrase(self, *pair):
        u, v = self(*pair[:2]), self(*pair[2:])
        x = self.paraphrase(self.dropout(torch.cat((u, v, (u - v).abs()), 1)))
        return (x.flatten() > 0).long()
