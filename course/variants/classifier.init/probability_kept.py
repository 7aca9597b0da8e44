"""No dropout layer: the probability is kept for F.dropout."""

from torch import nn
from torch.nn import functional as F

from bert import BertModel


class ProbabilityKept:
    def __init__(self, config):
        super().__init__()
        self.num_labels = config.num_labels
        model = getattr(config, "model", None)
        self.bert = BertModel.from_pretrained(model)
        if config.option not in ("pretrain", "finetune"):
            raise ValueError(f"option {config.option!r} is neither 'pretrain' nor 'finetune'")
        self.bert.requires_grad_(config.option == "finetune")
        self.p = config.hidden_dropout_prob
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)

    def forward(self, input_ids, attention_mask):
        pooled = self.bert(input_ids, attention_mask)["pooler_output"]
        return self.classifier(F.dropout(pooled, self.p, self.training))
