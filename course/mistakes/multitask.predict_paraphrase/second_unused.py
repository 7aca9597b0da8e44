"""Only the first sentence counts.

Hint: Whether two sentences mean the same cannot be told from one of them. Does the second
vector go into what the last layer gets?
Read: Reimers & Gurevych 2019, §3
Named: sentence_unused
"""

import torch
from torch import nn

from bert import BertModel


class SecondUnused:
    def predict_paraphrase(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        first = self.forward(input_ids_1, attention_mask_1)
        second = self.forward(input_ids_2, attention_mask_2)
        pair = torch.cat([first, first, (first - first).abs()], dim=-1)
        pair = self.dropout(pair)
        logits = self.paraphrase(pair)
        logits = logits.squeeze(-1)
        return logits


class OneVector:
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
        return self.paraphrase(self.dropout(self(ids_a, mask_a)))[:, 0]
