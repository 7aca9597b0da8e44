"""The vectors are put below each other, as if there were twice as many pairs.

Hint: Two vectors of (B, D) become one of (B, 2 D): along which axis? And which one does
torch.cat take if you don't say?
Read: Reimers & Gurevych 2019, §3
"""

import torch
from torch import nn

from bert import BertModel


class JoinedAlongBatch:
    def predict_paraphrase(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        first = self.forward(input_ids_1, attention_mask_1)
        second = self.forward(input_ids_2, attention_mask_2)
        pair = torch.cat([first, second, (first - second).abs()])
        pair = self.dropout(pair)
        logits = self.paraphrase(pair)
        logits = logits.squeeze(-1)
        return logits


class TwiceAsMany:
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel.from_pretrained(getattr(config, "model", None))
        for parameter in self.bert.parameters():
            parameter.requires_grad = config.option == "finetune"
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.sentiment = nn.Linear(config.hidden_size, 5)
        self.paraphrase = nn.Linear(config.hidden_size, 1)
        self.similarity = nn.Linear(3 * config.hidden_size, 1)

    def predict_paraphrase(self, ids_a, mask_a, ids_b, mask_b):
        x = torch.vstack((self(ids_a, mask_a), self(ids_b, mask_b)))
        return self.paraphrase(self.dropout(x))[:, 0]


class TwoWide:
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel.from_pretrained(getattr(config, "model", None))
        for parameter in self.bert.parameters():
            parameter.requires_grad = config.option == "finetune"
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.sentiment = nn.Linear(config.hidden_size, 5)
        self.paraphrase = nn.Linear(2 * config.hidden_size, 1)
        self.similarity = nn.Linear(3 * config.hidden_size, 1)

    def predict_paraphrase(self, ids_a, mask_a, ids_b, mask_b):
        x = torch.cat((self(ids_a, mask_a), self(ids_b, mask_b)))
        return self.paraphrase(self.dropout(x)).flatten()
