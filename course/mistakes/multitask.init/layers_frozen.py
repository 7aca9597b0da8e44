"""Your own layers are frozen together with BERT.

Hint: With --option pretrain your layers are all that learns. Over whose parameters does the
loop go that freezes them?
Read: Devlin et al. 2019, §4.1
"""

from torch import nn

from bert import BertModel


class LayersFrozen:
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel.from_pretrained(getattr(config, "model", None))
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.sentiment = nn.Linear(config.hidden_size, 5)
        self.paraphrase = nn.Linear(3 * config.hidden_size, 1)
        self.similarity = nn.Linear(3 * config.hidden_size, 1)
        for parameter in self.parameters():
            parameter.requires_grad = config.option == "finetune"


class WholeModel:
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel.from_pretrained("bert-base-uncased")
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.sentiment = nn.Linear(config.hidden_size, 5)
        self.paraphrase = nn.Linear(3 * config.hidden_size, 1)
        self.similarity = nn.Linear(3 * config.hidden_size, 1)
        if config.option == "pretrain":
            self.requires_grad_(False)
