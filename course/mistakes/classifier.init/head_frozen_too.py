"""With --option pretrain the linear layer is frozen together with BERT: nothing learns.

Hint: Whose parameters does the loop go over: those of the whole model or those of self.bert?
Read: Devlin et al. 2019, §4.1
"""

from torch import nn

from bert import BertModel


class HeadFrozenToo:
    def __init__(self, config):
        super().__init__()
        self.num_labels = config.num_labels
        model = getattr(config, "model", None)
        self.bert = BertModel.from_pretrained(model, attention_kernel="auto")
        if config.option not in ("pretrain", "finetune"):
            raise ValueError(f"option {config.option!r} is neither 'pretrain' nor 'finetune'")
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.requires_grad_(config.option == "finetune")


class Head:
    def __init__(self, config):
        nn.Module.__init__(self)
        self.bert = BertModel.from_pretrained(getattr(config, "model", None))
        drop = nn.Dropout(p=config.hidden_dropout_prob)
        linear = nn.Linear(in_features=config.hidden_size, out_features=config.num_labels)
        self.head = nn.Sequential(drop, linear)
        for parameter in self.parameters():
            parameter.requires_grad = config.option == "finetune"
