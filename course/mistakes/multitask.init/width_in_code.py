"""The width of bert-base, 768, is written in the code.

Hint: BERTs come in many widths, and your model has to fit the one that is loaded. Where do you
learn how wide it is?
Read: Devlin et al. 2019, §4.1
"""

from torch import nn

from bert import BertModel


class WidthInCode:
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel.from_pretrained(getattr(config, "model", None))
        for parameter in self.bert.parameters():
            parameter.requires_grad = config.option == "finetune"
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.sentiment = nn.Linear(768, 5)
        self.paraphrase = nn.Linear(3 * 768, 1)
        self.similarity = nn.Linear(3 * 768, 1)


class OfPairsOnly:
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel.from_pretrained("bert-base-uncased")
        self.bert.requires_grad_(config.option == "finetune")
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.sentiment = nn.Linear(config.hidden_size, 5)
        self.paraphrase = nn.Sequential(nn.Linear(2304, 100), nn.ReLU(), nn.Linear(100, 1))
        self.similarity = nn.Sequential(nn.Linear(2304, 100), nn.ReLU(), nn.Linear(100, 1))
