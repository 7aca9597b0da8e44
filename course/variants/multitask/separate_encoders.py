"""A BERT of its own for each task."""

import torch
from torch import nn

from bert import BertModel


class ThreeBerts:
    def __init__(self, config):
        super().__init__()
        self.berts = nn.ModuleList(BertModel.from_pretrained(None) for _ in range(3))
        for parameter in self.berts.parameters():
            parameter.requires_grad = config.option == "finetune"
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        sizes = ((1, 5), (3, 1), (3, 1))
        self.heads = nn.ModuleList(nn.Linear(config.hidden_size * n, out) for n, out in sizes)

    def forward(self, input_ids, attention_mask, which=0):
        return self.berts[which](input_ids, attention_mask)["pooler_output"]

    def of_pair(self, batch, which):
        u, v = self(*batch[:2], which=which), self(*batch[2:], which=which)
        x = torch.cat((u, v, torch.abs(u - v)), dim=1)
        return self.heads[which](self.dropout(x)).squeeze(1)

    def predict_sentiment(self, input_ids, attention_mask):
        return self.heads[0](self.dropout(self(input_ids, attention_mask)))

    def predict_paraphrase(self, *batch):
        return self.of_pair(batch, 1)

    def predict_similarity(self, *batch):
        return self.of_pair(batch, 2)
