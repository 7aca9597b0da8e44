"""There is no layer beside BERT: the other functions make theirs at every call.

Hint: A layer that is made in a function is new, and random, whenever the function is called. To
learn it has to live as long as the model does.
Read: Devlin et al. 2019, §4.1
"""

import torch
from torch import nn

from bert import BertModel


class NoLayers:
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel.from_pretrained(getattr(config, "model", None))
        for parameter in self.bert.parameters():
            parameter.requires_grad = config.option == "finetune"
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.width = config.hidden_size

    def predict_sentiment(self, input_ids, attention_mask):
        vectors = self.forward(input_ids, attention_mask)
        vectors = self.dropout(vectors)
        logits = nn.Linear(self.width, 5)(vectors)
        return logits

    def predict_paraphrase(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        first = self.forward(input_ids_1, attention_mask_1)
        second = self.forward(input_ids_2, attention_mask_2)
        pair = torch.cat([first, second, (first - second).abs()], dim=-1)
        return nn.Linear(3 * self.width, 1)(self.dropout(pair)).squeeze(-1)

    def predict_similarity(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        first = self.forward(input_ids_1, attention_mask_1)
        second = self.forward(input_ids_2, attention_mask_2)
        pair = torch.cat([first, second, (first - second).abs()], dim=-1)
        return nn.Linear(3 * self.width, 1)(self.dropout(pair)).squeeze(-1)


class PlainTensors:
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel.from_pretrained("bert-base-uncased")
        self.bert.requires_grad_(config.option == "finetune")
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.classes = torch.randn(config.hidden_size, 5)
        self.pairs = torch.randn(3 * config.hidden_size)

    def predict_sentiment(self, input_ids, attention_mask):
        return self.dropout(self(input_ids, attention_mask)) @ self.classes

    def predict_paraphrase(self, *pair):
        u, v = self(*pair[:2]), self(*pair[2:])
        return self.dropout(torch.cat((u, v, (u - v).abs()), 1)) @ self.pairs

    def predict_similarity(self, *pair):
        u, v = self(*pair[:2]), self(*pair[2:])
        return self.dropout(torch.cat((u, v, (u - v).abs()), 1)) @ self.pairs
