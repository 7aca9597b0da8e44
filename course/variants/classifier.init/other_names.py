"""Other names, an nn.ModuleDict, loops over BERT's parameters."""

from torch import nn

from bert import BertModel


class OtherNames:
    def __init__(self, config):
        super().__init__()
        encoder = BertModel.from_pretrained(getattr(config, "model", None))
        if config.option == "pretrain":
            for weight in encoder.parameters():
                weight.requires_grad = False
        self.bert = encoder
        sizes = config.hidden_size, config.num_labels
        self.layers = nn.ModuleDict({"project": nn.Linear(*sizes)})
        self.layers["drop"] = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, input_ids, attention_mask):
        pooled = self.bert(input_ids, attention_mask)["pooler_output"]
        return self.layers["project"](self.layers["drop"](pooled))
