"""With --option pretrain BERT is trained, too.

Hint: "pretrain" means that BERT stays as it was pretrained and only your own layers learn.
Which attribute of a parameter decides, and is its name spelt right? Evaluation mode does not
freeze anything.
Read: Devlin et al. 2019, §4.1
"""

from torch import nn

from bert import BertModel


class BertNotFrozen:
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel.from_pretrained(getattr(config, "model", None))
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.sentiment = nn.Linear(config.hidden_size, 5)
        self.paraphrase = nn.Linear(3 * config.hidden_size, 1)
        self.similarity = nn.Linear(3 * config.hidden_size, 1)


class Misspelt:
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel.from_pretrained("bert-base-uncased")
        for parameter in self.bert.parameters():
            parameter.require_grad = config.option == "finetune"
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.sentiment = nn.Linear(config.hidden_size, 5)
        self.paraphrase = nn.Linear(3 * config.hidden_size, 1)
        self.similarity = nn.Linear(3 * config.hidden_size, 1)


class EvaluationMode:
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel.from_pretrained("bert-base-uncased")
        if config.option == "pretrain":
            self.bert.eval()
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.sentiment = nn.Linear(config.hidden_size, 5)
        self.paraphrase = nn.Linear(3 * config.hidden_size, 1)
        self.similarity = nn.Linear(3 * config.hidden_size, 1)
