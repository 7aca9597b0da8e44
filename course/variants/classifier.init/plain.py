"""What the handout's comments ask for, line by line."""

from torch import nn

from bert import BertModel


class Plain:
    def __init__(self, config):
        super().__init__()
        self.num_labels = config.num_labels
        model = getattr(config, "model", None)
        self.bert = BertModel.from_pretrained(model)
        self.bert.requires_grad_(config.option == "finetune")
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
