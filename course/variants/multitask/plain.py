"""A bi-encoder: the pooled output of each sentence, a linear layer for each task."""

import torch
from torch import nn

from bert import BertModel


class Plain:
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel.from_pretrained(getattr(config, "model", None))
        for parameter in self.bert.parameters():
            parameter.requires_grad = config.option == "finetune"
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.sentiment = nn.Linear(config.hidden_size, 5)
        self.paraphrase = nn.Linear(3 * config.hidden_size, 1)
        self.similarity = nn.Linear(3 * config.hidden_size, 1)

    def forward(self, input_ids, attention_mask):
        outputs = self.bert(input_ids, attention_mask)
        vectors = outputs["pooler_output"]
        return vectors

    def predict_sentiment(self, input_ids, attention_mask):
        vectors = self.forward(input_ids, attention_mask)
        vectors = self.dropout(vectors)
        logits = self.sentiment(vectors)
        return logits

    def pair(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        first = self.forward(input_ids_1, attention_mask_1)
        second = self.forward(input_ids_2, attention_mask_2)
        return self.dropout(torch.cat([first, second, (first - second).abs()], dim=-1))

    def predict_paraphrase(self, *sentences):
        return self.paraphrase(self.pair(*sentences)).squeeze(-1)

    def predict_similarity(self, *sentences):
        return self.similarity(self.pair(*sentences)).squeeze(-1)
