"""An option of your own is read from a configuration that need not have it.

Hint: Checkpoints and checks give a configuration without your option. What should happen then?
Read: Devlin et al. 2019, §4.1
"""

from torch import nn

from bert import BertModel


class UnknownOption:
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel.from_pretrained(getattr(config, "model", None))
        for parameter in self.bert.parameters():
            parameter.requires_grad = config.option == "finetune"
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.pooling = config.kind_of_pooling
        self.sentiment = nn.Linear(config.hidden_size, 5)
        self.paraphrase = nn.Linear(3 * config.hidden_size, 1)
        self.similarity = nn.Linear(3 * config.hidden_size, 1)


class NumberOfLayers:
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel.from_pretrained("bert-base-uncased")
        self.bert.requires_grad_(config.option == "finetune")
        sizes = [config.hidden_size] * config.layers_in_heads
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.heads = nn.ModuleList(nn.Linear(size, 5) for size in sizes)
