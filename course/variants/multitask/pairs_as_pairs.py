"""Means of the tokens, both sentences of a paraphrase in one sequence, cosines; helper methods."""

import torch
from torch import nn
from torch.nn import functional as F

from bert import BertModel


class PairsAsPairs:
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel.from_pretrained("bert-base-uncased")
        self.bert.requires_grad_(config.option == "finetune")
        self.heads = nn.ModuleDict({"stars": nn.Linear(config.hidden_size, 5)})
        self.heads["yes"] = nn.Linear(config.hidden_size, 1)
        self.drop = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, input_ids, attention_mask):
        hidden = self.bert(input_ids, attention_mask)["last_hidden_state"]
        weights = attention_mask.unsqueeze(-1).to(hidden.dtype)
        return (hidden * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)

    def vector(self, *sentence):
        return self.drop(self(*sentence))

    def predict_sentiment(self, input_ids, attention_mask):
        return self.heads["stars"](self.vector(input_ids, attention_mask))

    def predict_paraphrase(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        ids = torch.cat((input_ids_1, input_ids_2), dim=1)
        mask = torch.cat((attention_mask_1, attention_mask_2), dim=1)
        return self.heads["yes"](self.vector(ids, mask)).flatten()

    def predict_similarity(self, *pair):
        return 5 * F.cosine_similarity(self.vector(*pair[:2]), self.vector(*pair[2:]))
