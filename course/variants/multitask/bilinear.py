"""A bilinear form of the two vectors, and minus a distance."""

import torch
from torch import nn

from bert import BertModel


class Bilinear:
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel.from_pretrained("bert-base-uncased")
        self.bert.requires_grad_(config.option == "finetune")
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.sentiment = nn.Linear(config.hidden_size, 5)
        self.paraphrase = nn.Bilinear(config.hidden_size, config.hidden_size, 1)
        self.similarity = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def predict_paraphrase(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        first = self.dropout(self.forward(input_ids_1, attention_mask_1))
        second = self.dropout(self.forward(input_ids_2, attention_mask_2))
        return self.paraphrase(first, second).squeeze(1)

    def predict_similarity(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        first = self.dropout(self.forward(input_ids_1, attention_mask_1))
        second = self.dropout(self.forward(input_ids_2, attention_mask_2))
        return torch.einsum("bd,bd->b", self.similarity(first), second)


class Distance:
    def predict_similarity(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        first = self.dropout(self.forward(input_ids_1, attention_mask_1))
        second = self.dropout(self.forward(input_ids_2, attention_mask_2))
        return -(first - second).abs().sum(dim=-1)
