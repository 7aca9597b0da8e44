"""The vectors are cut off from BERT, so fine-tuning never reaches it.

Hint: Freezing is the business of requires_grad, and only with --option pretrain. What do
no_grad and detach do to all that is computed before them?
Read: Reimers & Gurevych 2019, §3
"""

import torch


class BertDetached:
    def predict_similarity(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        first = self.forward(input_ids_1, attention_mask_1).detach()
        second = self.forward(input_ids_2, attention_mask_2).detach()
        pair = torch.cat([first, second, (first - second).abs()], dim=-1)
        pair = self.dropout(pair)
        scores = self.similarity(pair)
        scores = scores.squeeze(-1)
        return scores


class UnderNoGrad:
    def predict_similarity(self, *pair):
        with torch.no_grad():
            u, v = self(*pair[:2]), self(*pair[2:])
        return 5 * self.similarity(self.dropout(torch.cat((u, v, u * v), -1))).flatten().sigmoid()
