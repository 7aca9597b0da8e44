"""The two vectors side by side, through a layer with an activation."""

import torch
from torch import nn

from bert import BertModel


class Concatenation:
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel.from_pretrained("bert-base-uncased")
        self.bert.requires_grad_(config.option != "pretrain")
        self.drop = nn.Dropout(p=config.hidden_dropout_prob)
        wide = config.hidden_size
        self.heads = nn.ModuleDict(
            {
                "sst": nn.Sequential(nn.Linear(wide, wide), nn.GELU(), nn.Linear(wide, 5)),
                "para": nn.Sequential(nn.Linear(2 * wide, wide), nn.ReLU(), nn.Linear(wide, 1)),
                "sts": nn.Sequential(nn.Linear(2 * wide, wide), nn.ReLU(), nn.Linear(wide, 1)),
            }
        )

    def forward(self, input_ids, attention_mask):
        return self.bert(input_ids, attention_mask)["pooler_output"]

    def both(self, ids_a, mask_a, ids_b, mask_b):
        return self.drop(torch.cat((self(ids_a, mask_a), self(ids_b, mask_b)), dim=1))

    def predict_sentiment(self, input_ids, attention_mask):
        return self.heads["sst"](self.drop(self(input_ids, attention_mask)))

    def predict_paraphrase(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        x = self.both(input_ids_1, attention_mask_1, input_ids_2, attention_mask_2)
        return self.heads["para"](x).squeeze(1)

    def predict_similarity(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        x = self.both(input_ids_1, attention_mask_1, input_ids_2, attention_mask_2)
        return self.heads["sts"](x).squeeze(1)


class OneBatchOfBoth:
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel.from_pretrained("bert-base-uncased")
        for parameter in self.bert.parameters():
            parameter.requires_grad = config.option == "finetune"
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.sentiment = nn.Linear(config.hidden_size, 5)
        self.paraphrase = nn.Linear(2 * config.hidden_size, 1)
        self.similarity = nn.Linear(2 * config.hidden_size, 1)

    def side_by_side(self, *batch):
        ids, masks = batch[::2], batch[1::2]
        width = max(one.size(1) for one in ids)
        ids, masks = (
            torch.cat([nn.functional.pad(t, (0, width - t.size(1))) for t in group])
            for group in (ids, masks)
        )
        first, second = self.forward(ids, masks).chunk(2)
        return self.dropout(torch.hstack([first, second]))

    def predict_paraphrase(self, *batch):
        return self.paraphrase(self.side_by_side(*batch))[:, 0]

    def predict_similarity(self, *batch):
        return self.similarity(self.side_by_side(*batch)).flatten()
