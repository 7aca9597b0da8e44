"""Both sentences of a pair in one sequence, which BERT reads at once."""

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from bert import BertModel


class WithSegments:
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel.from_pretrained("bert-base-uncased")
        for parameter in self.bert.parameters():
            parameter.requires_grad = config.option == "finetune"
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.sentiment = nn.Linear(config.hidden_size, 5)
        self.paraphrase = nn.Linear(config.hidden_size, 1)
        self.similarity = nn.Linear(config.hidden_size, 1)

    def forward(self, input_ids, attention_mask, segments=None):
        return self.bert(input_ids, attention_mask, segments)["pooler_output"]

    def cross(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        rows, kinds = [], []
        for ids_1, mask_1, ids_2, mask_2 in zip(
            input_ids_1, attention_mask_1, input_ids_2, attention_mask_2, strict=True
        ):
            left, right = ids_1[mask_1.bool()], ids_2[mask_2.bool()][1:]
            rows.append(torch.cat([left, right]))
            kinds.append(torch.cat([torch.zeros_like(left), torch.ones_like(right)]))
        mask = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
        ids, segments = pad_sequence(rows, batch_first=True), pad_sequence(kinds, batch_first=True)
        return self.dropout(self.forward(ids, mask, segments))

    def predict_paraphrase(self, *batch):
        return self.paraphrase(self.cross(*batch)).squeeze(-1)

    def predict_similarity(self, *batch):
        return 5 * torch.sigmoid(self.similarity(self.cross(*batch)).squeeze(-1))


class PaddedSideBySide:
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel.from_pretrained("bert-base-uncased")
        for parameter in self.bert.parameters():
            parameter.requires_grad = config.option == "finetune"
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.sentiment = nn.Linear(config.hidden_size, 5)
        self.paraphrase = nn.Linear(config.hidden_size, 1)
        self.similarity = nn.Linear(config.hidden_size, 1)

    def predict_paraphrase(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        ids = torch.cat((input_ids_1, input_ids_2), dim=1)
        mask = torch.cat((attention_mask_1, attention_mask_2), dim=1)
        return self.paraphrase(self.dropout(self(ids, mask)))[:, 0]

    def predict_similarity(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        ids = torch.cat((input_ids_1, input_ids_2), dim=1)
        mask = torch.cat((attention_mask_1, attention_mask_2), dim=1)
        return self.similarity(self.dropout(self(ids, mask)))[:, 0]
