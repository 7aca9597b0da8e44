"""Your own layers stand in a plain list, where nn.Module does not find them.

Hint: A module knows of its parts by its attributes, and of lists of them only if they are
nn.ModuleList or nn.ModuleDict. What does model.parameters() give?
Read: Devlin et al. 2019, §4.1
"""

import torch
from torch import nn

from bert import BertModel


class LayersInList:
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel.from_pretrained(getattr(config, "model", None))
        for parameter in self.bert.parameters():
            parameter.requires_grad = config.option == "finetune"
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.heads = [
            nn.Linear(config.hidden_size, 5),
            nn.Linear(3 * config.hidden_size, 1),
            nn.Linear(3 * config.hidden_size, 1),
        ]

    def predict_sentiment(self, input_ids, attention_mask):
        return self.heads[0](self.dropout(self.forward(input_ids, attention_mask)))

    def predict_paraphrase(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        first = self.forward(input_ids_1, attention_mask_1)
        second = self.forward(input_ids_2, attention_mask_2)
        pair = torch.cat([first, second, (first - second).abs()], dim=-1)
        return self.heads[1](self.dropout(pair)).squeeze(-1)

    def predict_similarity(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        first = self.forward(input_ids_1, attention_mask_1)
        second = self.forward(input_ids_2, attention_mask_2)
        pair = torch.cat([first, second, (first - second).abs()], dim=-1)
        return self.heads[2](self.dropout(pair)).squeeze(-1)


class InDict:
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel.from_pretrained("bert-base-uncased")
        self.bert.requires_grad_(config.option == "finetune")
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.sentiment = nn.Linear(config.hidden_size, 5)
        names = ("paraphrase", "similarity")
        self.of_pairs = {name: nn.Linear(3 * config.hidden_size, 1) for name in names}

    def predict_paraphrase(self, *pair):
        u, v = self(*pair[:2]), self(*pair[2:])
        x = self.dropout(torch.cat((u, v, (u - v).abs()), 1))
        return self.of_pairs["paraphrase"](x).flatten()

    def predict_similarity(self, *pair):
        u, v = self(*pair[:2]), self(*pair[2:])
        x = self.dropout(torch.cat((u, v, (u - v).abs()), 1))
        return self.of_pairs["similarity"](x).flatten()
