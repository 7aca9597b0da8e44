"""The logits go through a sigmoid.

Hint: The loss, cross_entropy, takes logits; a sigmoid is for classes that may be true together.
Read: the PyTorch documentation, torch.nn.CrossEntropyLoss
"""

import torch
from torch.nn import functional as F


class SigmoidReturned:
    def forward(self, input_ids, attention_mask):
        outputs = self.bert(input_ids, attention_mask)
        pooled = outputs["pooler_output"]
        pooled = self.dropout(pooled)
        logits = self.classifier(pooled)
        return torch.sigmoid(logits)


class OneLine:
    def forward(self, ids, mask):
        found = self.bert(input_ids=ids, attention_mask=mask)
        return self.classifier(self.dropout(found["pooler_output"])).sigmoid()


class Functions:
    def forward(self, input_ids, attention_mask):
        sentence = self.bert(input_ids, attention_mask=attention_mask).get("pooler_output")
        kept = F.dropout(sentence, p=self.dropout.p, training=self.training)
        weight, bias = self.classifier.weight, self.classifier.bias
        return 1 / (1 + torch.exp(-torch.addmm(bias, kept, weight.t())))
