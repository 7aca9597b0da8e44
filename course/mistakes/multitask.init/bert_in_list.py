"""BERT stands in a plain list, where nn.Module does not find it.

Hint: A module knows of its parts by its attributes. What an optimizer trains and a checkpoint
holds are the parameters that model.parameters() gives.
Read: Devlin et al. 2019, §4.1
Named: bert_not_registered
"""

from torch import nn

from bert import BertModel


class BertInList:
    def __init__(self, config):
        super().__init__()
        self.encoders = [BertModel.from_pretrained(getattr(config, "model", None))]
        for parameter in self.encoders[0].parameters():
            parameter.requires_grad = config.option == "finetune"
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.sentiment = nn.Linear(config.hidden_size, 5)
        self.paraphrase = nn.Linear(3 * config.hidden_size, 1)
        self.similarity = nn.Linear(3 * config.hidden_size, 1)

    def forward(self, input_ids, attention_mask):
        outputs = self.encoders[0](input_ids, attention_mask)
        vectors = outputs["pooler_output"]
        return vectors


class InFunction:
    def __init__(self, config):
        super().__init__()
        encoder = BertModel.from_pretrained("bert-base-uncased")
        encoder.requires_grad_(config.option == "finetune")
        self.forward = lambda ids, mask: encoder(ids, mask)["pooler_output"]
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.sentiment = nn.Linear(config.hidden_size, 5)
        self.paraphrase = nn.Linear(3 * config.hidden_size, 1)
        self.similarity = nn.Linear(3 * config.hidden_size, 1)
