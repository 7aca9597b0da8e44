"""The predicted class is returned instead of the logits.

Hint: An argmax has no gradient; who calls forward makes predictions of the logits.
Read: the PyTorch documentation, torch.nn.CrossEntropyLoss
"""

import torch
from torch.nn import functional as F


class ArgmaxReturned:
    def forward(self, input_ids, attention_mask):
        outputs = self.bert(input_ids, attention_mask)
        pooled = outputs["pooler_output"]
        pooled = self.dropout(pooled)
        logits = self.classifier(pooled)
        return logits.argmax(dim=-1)


class OneLine:
    def forward(self, ids, mask):
        found = self.bert(input_ids=ids, attention_mask=mask)
        return self.classifier(self.dropout(found["pooler_output"])).max(1).indices


class Functions:
    def forward(self, input_ids, attention_mask):
        sentence = self.bert(input_ids, attention_mask=attention_mask).get("pooler_output")
        kept = F.dropout(sentence, p=self.dropout.p, training=self.training)
        weight, bias = self.classifier.weight, self.classifier.bias
        return torch.topk(torch.addmm(bias, kept, weight.t()), 1).indices[:, 0]
