"""Logits are scaled over the batch, so one pair depends on the others.

Hint: What your model says of a pair must not depend on which other pairs stand in the batch.
Which axis is that of the batch?
Read: Reimers & Gurevych 2019, §3
Named: rows_mixed
"""

import torch


class ScaledOverBatch:
    def predict_paraphrase(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        first = self.forward(input_ids_1, attention_mask_1)
        second = self.forward(input_ids_2, attention_mask_2)
        pair = torch.cat([first, second, (first - second).abs()], dim=-1)
        pair = self.dropout(pair)
        logits = self.paraphrase(pair)
        logits = logits.squeeze(-1)
        logits = logits - logits.mean()
        return logits


class OneProbabilityForAll:
    def predict_paraphrase(self, *pair):
        u, v = self(*pair[:2]), self(*pair[2:])
        x = self.paraphrase(self.dropout(torch.cat((u, v, (u - v).abs()), 1)))
        return x.log_softmax(0)[:, 0]


class SoftmaxOverBatch:
    def predict_paraphrase(self, *pair):
        u, v = self(*pair[:2]), self(*pair[2:])
        x = self.paraphrase(self.dropout(torch.cat((u, v, (u - v).abs()), 1))).flatten()
        return x.exp() / x.exp().sum()
