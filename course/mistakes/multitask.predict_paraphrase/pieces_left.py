"""There is a logit for each word piece, or pair of pieces, not one for each pair of sentences.

Hint: All heads start from one vector for each sentence, which forward gives.
Read: Reimers & Gurevych 2019, §3
"""

import torch


class PiecesLeft:
    def predict_paraphrase(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        first = self.bert(input_ids_1, attention_mask_1)["last_hidden_state"]
        second = self.bert(input_ids_2, attention_mask_2)["last_hidden_state"]
        logits = first @ second.transpose(1, 2)
        return logits


class FirstWithVector:
    def predict_paraphrase(self, *pair):
        u = self.bert(*pair[:2])["last_hidden_state"]
        v = self(*pair[2:]).unsqueeze(1).expand_as(u)
        return self.paraphrase(self.dropout(torch.cat((u, v, (u - v).abs()), -1)))
