"""Pieces of the sentences are compared, padding included.

Hint: What BERT returns at padding means nothing, and how much of it there is depends on the
longest sentence in the batch. What tells you which pieces are real?
Read: docs/handout.md, Task 2.2
"""

import torch


class PaddingPooled:
    def predict_paraphrase(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        first = self.bert(input_ids_1, attention_mask_1)["last_hidden_state"].mean(dim=1)
        second = self.bert(input_ids_2, attention_mask_2)["last_hidden_state"].mean(dim=1)
        pair = torch.cat([first, second, (first - second).abs()], dim=-1)
        pair = self.dropout(pair)
        logits = self.paraphrase(pair)
        logits = logits.squeeze(-1)
        return logits


class BestMatches:
    def predict_paraphrase(self, *pair):
        u = self.bert(*pair[:2])["last_hidden_state"]
        v = self.bert(*pair[2:])["last_hidden_state"]
        x = torch.cat((u.amax(1), v.amax(1), (u.sum(1) - v.sum(1)).abs()), dim=-1)
        return self.paraphrase(self.dropout(x)).flatten()
