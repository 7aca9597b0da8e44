"""Settings in locals, a dropout layer in place, zeros for a bias."""

from torch import nn

from bert import BertModel


class SettingsFirst:
    def __init__(self, config):
        super().__init__()
        width, classes, p = config.hidden_size, config.num_labels, config.hidden_dropout_prob
        finetune = config.option == "finetune"
        self.bert = BertModel.from_pretrained(getattr(config, "model", None)).train(finetune)
        for name, parameter in self.bert.named_parameters():
            parameter.requires_grad_(finetune and bool(name))
        self.dropout, self.classifier = nn.Dropout(p, inplace=False), nn.Linear(width, classes)
        nn.init.zeros_(self.classifier.bias)
