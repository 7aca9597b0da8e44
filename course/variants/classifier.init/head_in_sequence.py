"""Dropout and linear layer in one nn.Sequential, which forward calls."""

from torch import nn

from bert import BertModel


class Head:
    def __init__(self, config):
        nn.Module.__init__(self)
        self.bert = BertModel.from_pretrained(getattr(config, "model", None))
        for parameter in self.bert.parameters():
            parameter.requires_grad = {"pretrain": False, "finetune": True}[config.option]
        drop = nn.Dropout(p=config.hidden_dropout_prob)
        linear = nn.Linear(in_features=config.hidden_size, out_features=config.num_labels)
        self.head = nn.Sequential(drop, linear)

    def forward(self, input_ids, attention_mask):
        return self.head(self.bert(input_ids, attention_mask)["pooler_output"])
