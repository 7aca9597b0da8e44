"""Similarities between 0 and 5 by a sigmoid, and between 0 and 1 by one; order dependent."""

import torch
from torch import nn

from bert import BertModel


class TimesFive:
    def predict_similarity(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        u = self.forward(input_ids_1, attention_mask_1)
        v = self.forward(input_ids_2, attention_mask_2)
        x = self.similarity(self.dropout(torch.cat((u, v, u - v), dim=-1)))
        return 5 * x.squeeze(-1).sigmoid()


class BetweenZeroAndOne:
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel.from_pretrained("bert-base-uncased")
        self.bert.requires_grad_(config.option == "finetune")
        self.d = nn.Dropout(config.hidden_dropout_prob)
        self.sst, self.para, self.sts = (
            nn.Linear(config.hidden_size * times, out) for times, out in ((1, 5), (2, 1), (2, 1))
        )

    def predict_sentiment(self, ids, mask):
        return torch.log_softmax(self.sst(self.d(self(ids, mask))), dim=1)

    def predict_paraphrase(self, ids, mask, other_ids, other_mask):
        return self.para(self.d(torch.cat((self(ids, mask), self(other_ids, other_mask)), 1)))[:, 0]

    def predict_similarity(self, ids, mask, other_ids, other_mask):
        x = self.sts(self.d(torch.cat((self(ids, mask), self(other_ids, other_mask)), 1)))
        return torch.special.expit(x)[:, 0]
