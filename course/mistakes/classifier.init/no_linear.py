"""The model has no linear layer of its own: none is made, or it stands in a plain list or dict.

Hint: Only what is an attribute of the model, or in nn.ModuleList, nn.ModuleDict or nn.Sequential,
is moved, trained and saved with it.
Read: the PyTorch documentation, torch.nn.Module
"""

from torch import nn

from bert import BertModel


class NoLinear:
    def __init__(self, config):
        super().__init__()
        self.num_labels = config.num_labels
        model = getattr(config, "model", None)
        self.bert = BertModel.from_pretrained(model, attention_kernel="auto")
        if config.option not in ("pretrain", "finetune"):
            raise ValueError(f"option {config.option!r} is neither 'pretrain' nor 'finetune'")
        self.bert.requires_grad_(config.option == "finetune")
        self.dropout = nn.Dropout(config.hidden_dropout_prob)


class Head:
    def __init__(self, config):
        nn.Module.__init__(self)
        self.bert = BertModel.from_pretrained(getattr(config, "model", None))
        for parameter in self.bert.parameters():
            parameter.requires_grad = {"pretrain": False, "finetune": True}[config.option]
        drop = nn.Dropout(p=config.hidden_dropout_prob)
        linear = nn.Linear(in_features=config.hidden_size, out_features=config.num_labels)
        self.drop = drop
        self.head = [drop, linear]


class OtherNames:
    def __init__(self, config):
        super().__init__()
        encoder = BertModel.from_pretrained(getattr(config, "model", None))
        if config.option == "pretrain":
            for weight in encoder.parameters():
                weight.requires_grad = False
        elif config.option == "finetune":
            for weight in encoder.parameters():
                weight.requires_grad = True
        self.bert = encoder
        sizes = config.hidden_size, config.num_labels
        self.project = {"project": nn.Linear(*sizes)}
        self.layers = nn.ModuleDict()
        self.layers["drop"] = nn.Dropout(config.hidden_dropout_prob)
