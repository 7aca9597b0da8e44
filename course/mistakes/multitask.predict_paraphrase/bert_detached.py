"""The vectors are cut off from BERT, so fine-tuning never reaches it.

Hint: Freezing is the business of requires_grad, and only with --option pretrain. What do
no_grad and detach do to all that is computed before them?
Read: Reimers & Gurevych 2019, §3
"""

import torch


class BertDetached:
    def predict_paraphrase(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        with torch.no_grad():
            first = self.forward(input_ids_1, attention_mask_1)
            second = self.forward(input_ids_2, attention_mask_2)
        pair = torch.cat([first, second, (first - second).abs()], dim=-1)
        pair = self.dropout(pair)
        logits = self.paraphrase(pair)
        logits = logits.squeeze(-1)
        return logits


class PairDetached:
    def predict_paraphrase(self, *pair):
        u, v = self(*pair[:2]), self(*pair[2:])
        return self.paraphrase(self.dropout(torch.cat((u, v, (u - v).abs()), 1).detach())).flatten()
