"""BERT is made from random numbers instead of being loaded.

Hint: What BERT learnt from millions of sentences is in its pretrained weights; a few thousand
sentences of ours cannot make up for it. Which method of BertModel reads them, and does anything
write over them afterwards?
Read: Devlin et al. 2019, §3
"""

from torch import nn

from bert import BertModel
from config import BertConfig


class BertNotLoaded:
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel(
            BertConfig(hidden_size=config.hidden_size, num_hidden_layers=2, num_attention_heads=4)
        )
        for parameter in self.bert.parameters():
            parameter.requires_grad = config.option == "finetune"
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.sentiment = nn.Linear(config.hidden_size, 5)
        self.paraphrase = nn.Linear(3 * config.hidden_size, 1)
        self.similarity = nn.Linear(3 * config.hidden_size, 1)


class InitialisedAfterwards:
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel.from_pretrained("bert-base-uncased")
        self.bert.requires_grad_(config.option == "finetune")
        self.drop = nn.Dropout(config.hidden_dropout_prob)
        self.head = nn.Linear(config.hidden_size, 5)
        self.apply(self.begin)

    def begin(self, module):
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
