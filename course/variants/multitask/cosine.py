"""Cosines of the two vectors: 5 times one for similarities, a scaled one as a logit."""

import torch
from torch import nn
from torch.nn import functional as F

from bert import BertModel


class FiveTimes:
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel.from_pretrained("bert-base-uncased")
        self.bert.requires_grad_(config.option == "finetune")
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.sentiment = nn.Linear(config.hidden_size, 5)
        self.scale = nn.Parameter(torch.tensor(10.0))
        self.threshold = nn.Parameter(torch.tensor(0.5))

    def predict_paraphrase(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        u = self.dropout(self.forward(input_ids_1, attention_mask_1))
        v = self.dropout(self.forward(input_ids_2, attention_mask_2))
        return self.scale * (F.cosine_similarity(u, v, dim=-1) - self.threshold)

    def predict_similarity(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        u = self.dropout(self.forward(input_ids_1, attention_mask_1))
        v = self.dropout(self.forward(input_ids_2, attention_mask_2))
        return 5 * F.cosine_similarity(u, v)


class AsItIs:
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel.from_pretrained("bert-base-uncased")
        self.bert.requires_grad_(config.option == "finetune")
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.sentiment = nn.Linear(config.hidden_size, 5)
        self.project = nn.Linear(config.hidden_size, config.hidden_size)
        self.compare = nn.CosineSimilarity(dim=1)

    def predict_paraphrase(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        return 20 * self.predict_similarity(
            input_ids_1, attention_mask_1, input_ids_2, attention_mask_2
        )

    def predict_similarity(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        u = self.project(self.dropout(self(input_ids_1, attention_mask_1)))
        v = self.project(self.dropout(self(input_ids_2, attention_mask_2)))
        return self.compare(u, v)
