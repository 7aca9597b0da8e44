"""|u − v| and u · v, number by number, without u and v themselves; swapping changes nothing."""

import torch
from torch import nn

from bert import BertModel


class DifferenceAndProduct:
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel.from_pretrained("bert-base-uncased")
        if config.option == "pretrain":
            for weight in self.bert.parameters():
                weight.requires_grad_(False)
        self.dropout = torch.nn.Dropout(config.hidden_dropout_prob)
        self.classes = nn.Linear(config.hidden_size, 5)
        self.duplicate = nn.Linear(config.hidden_size * 2, 1)
        self.alike = nn.Linear(config.hidden_size * 2, 1)

    def forward(self, input_ids, attention_mask):
        return self.dropout(self.bert(input_ids, attention_mask)["last_hidden_state"][:, 0])

    def predict_sentiment(self, input_ids, attention_mask):
        return self.classes(self.forward(input_ids, attention_mask))

    def compare(self, one, other):
        return torch.cat((torch.abs(one - other), one * other), -1)

    def predict_paraphrase(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        u, v = self(input_ids_1, attention_mask_1), self(input_ids_2, attention_mask_2)
        return self.duplicate(self.compare(u, v)).view(-1)

    def predict_similarity(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        u, v = self(input_ids_1, attention_mask_1), self(input_ids_2, attention_mask_2)
        return self.alike(self.compare(u, v)).view(-1)
