"""There is no dropout between BERT's pooled output and the linear layer.

Hint: The layer made in __init__ has to be called in forward.
Read: Devlin et al. 2019, §4.1
"""

import torch
from torch.nn import functional as F


class NoDropout:
    def forward(self, input_ids, attention_mask):
        outputs = self.bert(input_ids, attention_mask)
        pooled = outputs["pooler_output"]
        logits = self.classifier(pooled)
        return logits


class OneLine:
    def forward(self, ids, mask):
        found = self.bert(input_ids=ids, attention_mask=mask)
        return self.classifier(found["pooler_output"])


class Functions:
    def forward(self, input_ids, attention_mask):
        sentence = self.bert(input_ids, attention_mask=attention_mask).get("pooler_output")
        kept = F.dropout(sentence, p=0.0, training=self.training)
        weight, bias = self.classifier.weight, self.classifier.bias
        return torch.addmm(bias, kept, weight.t())
