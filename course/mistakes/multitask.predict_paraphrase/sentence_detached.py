"""One of the two sentences is cut off from BERT, so it learns from the other one only.

Hint: Both vectors come from the same BERT, and the loss has something to say to it about both.
Read: Reimers & Gurevych 2019, §3
"""

import torch


class SentenceDetached:
    def predict_paraphrase(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        first = self.forward(input_ids_1, attention_mask_1)
        second = self.forward(input_ids_2, attention_mask_2).detach()
        pair = torch.cat([first, second, (first - second).abs()], dim=-1)
        pair = self.dropout(pair)
        logits = self.paraphrase(pair)
        logits = logits.squeeze(-1)
        return logits


class FirstUnderNoGrad:
    def predict_paraphrase(self, *pair):
        with torch.no_grad():
            u = self(*pair[:2])
        v = self(*pair[2:])
        return self.paraphrase(self.dropout(torch.cat((u, v, (u - v).abs()), 1))).flatten()
