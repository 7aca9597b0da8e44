"""Each sentence's [CLS] attends to the pieces of the other one."""

import torch
from torch import nn

from bert import BertModel


class AttentionAcross:
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel.from_pretrained("bert-base-uncased")
        self.bert.requires_grad_(config.option == "finetune")
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.across = nn.MultiheadAttention(config.hidden_size, 4, batch_first=True)
        self.sentiment = nn.Linear(config.hidden_size, 5)
        self.paraphrase = nn.Linear(2 * config.hidden_size, 1)
        self.similarity = nn.Linear(2 * config.hidden_size, 1)

    def meet(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        u = self.bert(input_ids_1, attention_mask_1)["last_hidden_state"]
        v = self.bert(input_ids_2, attention_mask_2)["last_hidden_state"]
        to_v, _ = self.across(u[:, :1], v, v, key_padding_mask=attention_mask_2 == 0)
        to_u, _ = self.across(v[:, :1], u, u, key_padding_mask=attention_mask_1 == 0)
        return self.dropout(torch.cat((to_u, to_v), dim=-1).squeeze(1))

    def predict_paraphrase(self, *batch):
        return self.paraphrase(self.meet(*batch)).squeeze(-1)

    def predict_similarity(self, *batch):
        return self.similarity(self.meet(*batch)).squeeze(-1)
