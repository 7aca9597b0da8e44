"""forward returns something else, or takes a pair; functions of other names do the work."""

import torch
from torch import nn

from bert import BertModel


class AllOfBert:
    def forward(self, input_ids, attention_mask):
        return self.bert(input_ids, attention_mask)

    def vector(self, input_ids, attention_mask):
        return self.forward(input_ids, attention_mask)["pooler_output"]

    def pair(self, a, b):
        return self.dropout(torch.cat([a, b, (a - b).abs()], dim=-1))

    def predict_sentiment(self, input_ids, attention_mask):
        return self.sentiment(self.dropout(self.vector(input_ids, attention_mask)))

    def predict_paraphrase(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        a = self.vector(input_ids_1, attention_mask_1)
        b = self.vector(input_ids_2, attention_mask_2)
        return self.paraphrase(self.pair(a, b)).squeeze(-1)

    def predict_similarity(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        a = self.vector(input_ids_1, attention_mask_1)
        b = self.vector(input_ids_2, attention_mask_2)
        return self.similarity(self.pair(a, b)).squeeze(-1)


class OfPairs:
    def __init__(self, config):
        super().__init__()
        self.encoder = BertModel.from_pretrained("bert-base-uncased")
        self.encoder.requires_grad_(config.option == "finetune")
        self.bert = self.encoder
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.out = nn.ModuleDict({"five": nn.Linear(2 * config.hidden_size, 5)})
        self.out["yes"] = nn.Linear(4 * config.hidden_size, 1)
        self.out["degree"] = nn.Linear(4 * config.hidden_size, 1)

    def forward(self, ids_1, mask_1, ids_2, mask_2, head):
        both = [self.encode(ids_1, mask_1), self.encode(ids_2, mask_2)]
        return self.out[head](self.dropout(torch.cat(both, dim=-1))).flatten()

    def encode(self, ids, mask):
        hidden = self.encoder(ids, mask)["last_hidden_state"]
        hidden = hidden * mask[:, :, None]
        return torch.cat([hidden[:, 0], hidden.sum(1) / mask.sum(1)[:, None]], dim=-1)

    def predict_sentiment(self, input_ids, attention_mask):
        return self.out["five"](self.dropout(self.encode(input_ids, attention_mask)))

    def predict_paraphrase(self, *batch):
        return self.forward(*batch, "yes")

    def predict_similarity(self, *batch):
        return self.forward(*batch, "degree")
