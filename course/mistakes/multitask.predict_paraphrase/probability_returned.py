"""A probability is returned, not a logit: a sigmoid is one too many.

Hint: The loss "with logits" and the evaluation each apply the sigmoid. After two of them every
pair has a probability above a half, so every answer is yes.
Read: Reimers & Gurevych 2019, §3
"""

import torch
from torch import nn
from torch.nn import functional as F

from bert import BertModel


class ProbabilityReturned:
    def predict_paraphrase(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        first = self.forward(input_ids_1, attention_mask_1)
        second = self.forward(input_ids_2, attention_mask_2)
        pair = torch.cat([first, second, (first - second).abs()], dim=-1)
        pair = self.dropout(pair)
        logits = self.paraphrase(pair)
        logits = logits.squeeze(-1)
        logits = logits.sigmoid()
        return logits


class HalfOfCosine:
    def predict_paraphrase(self, *pair):
        u, v = self.dropout(self(*pair[:2])), self.dropout(self(*pair[2:]))
        return (F.cosine_similarity(u, v) + 1) / 2


class SecondOfTwo:
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel.from_pretrained(getattr(config, "model", None))
        for parameter in self.bert.parameters():
            parameter.requires_grad = config.option == "finetune"
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.sentiment = nn.Linear(config.hidden_size, 5)
        self.paraphrase = nn.Linear(2 * config.hidden_size, 2)
        self.similarity = nn.Linear(3 * config.hidden_size, 1)

    def predict_paraphrase(self, ids_a, mask_a, ids_b, mask_b):
        x = torch.cat((self(ids_a, mask_a), self(ids_b, mask_b)), dim=1)
        return torch.softmax(self.paraphrase(self.dropout(x)), dim=1)[:, 1]
