"""BERT's parameters are trained with --option pretrain, too.

Hint: pretrain means that BERT stays as it was pretrained, and only the layer above it learns.
Read: Devlin et al. 2019, §4.1
"""

from torch import nn

from bert import BertModel


class BertAlwaysTrains:
    def __init__(self, config):
        super().__init__()
        self.num_labels = config.num_labels
        model = getattr(config, "model", None)
        self.bert = BertModel.from_pretrained(model, attention_kernel="auto")
        if config.option not in ("pretrain", "finetune"):
            raise ValueError(f"option {config.option!r} is neither 'pretrain' nor 'finetune'")
        self.bert.requires_grad_(True)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)


class Head:
    def __init__(self, config):
        nn.Module.__init__(self)
        self.bert = BertModel.from_pretrained(getattr(config, "model", None))
        for parameter in self.bert.parameters():
            parameter.requires_grad = {"pretrain": True, "finetune": True}[config.option]
        drop = nn.Dropout(p=config.hidden_dropout_prob)
        linear = nn.Linear(in_features=config.hidden_size, out_features=config.num_labels)
        self.head = nn.Sequential(drop, linear)


class OtherNames:
    def __init__(self, config):
        super().__init__()
        encoder = BertModel.from_pretrained(getattr(config, "model", None))
        if config.option == "pretrain":
            for weight in encoder.parameters():
                weight.require_grad = False
        elif config.option == "finetune":
            for weight in encoder.parameters():
                weight.requires_grad = True
        self.bert = encoder
        sizes = config.hidden_size, config.num_labels
        self.layers = nn.ModuleDict({"project": nn.Linear(*sizes)})
        self.layers["drop"] = nn.Dropout(config.hidden_dropout_prob)
