"""There are two numbers for each pair, for yes and for no.

Hint: With two classes one logit says it all: its sigmoid is the probability of yes, and the
rest that of no.
Read: Reimers & Gurevych 2019, §3
"""

import torch
from torch import nn

from bert import BertModel


class TwoLogits:
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel.from_pretrained(getattr(config, "model", None))
        for parameter in self.bert.parameters():
            parameter.requires_grad = config.option == "finetune"
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.sentiment = nn.Linear(config.hidden_size, 5)
        self.paraphrase = nn.Linear(3 * config.hidden_size, 2)
        self.similarity = nn.Linear(3 * config.hidden_size, 1)

    def predict_paraphrase(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        first = self.forward(input_ids_1, attention_mask_1)
        second = self.forward(input_ids_2, attention_mask_2)
        pair = torch.cat([first, second, (first - second).abs()], dim=-1)
        pair = self.dropout(pair)
        logits = self.paraphrase(pair)
        return logits


class BothSigns:
    def predict_paraphrase(self, *pair):
        u, v = self(*pair[:2]), self(*pair[2:])
        x = self.paraphrase(self.dropout(torch.cat((u, v, (u - v).abs()), 1)))
        return torch.hstack((-x, x))
