"""Dropout is applied in evaluation, too.

Hint: A function, unlike a layer, does not know of model.eval(); and what is made in forward is
always in training mode.
Read: the PyTorch documentation, torch.nn.functional.dropout
"""

import torch
from torch import nn
from torch.nn import functional as F


class DropoutInEvaluation:
    def forward(self, input_ids, attention_mask):
        outputs = self.bert(input_ids, attention_mask)
        pooled = outputs["pooler_output"]
        pooled = F.dropout(pooled, self.dropout.p)
        logits = self.classifier(pooled)
        return logits


class OneLine:
    def forward(self, ids, mask):
        found = self.bert(input_ids=ids, attention_mask=mask)
        return self.classifier(nn.Dropout(self.dropout.p)(found["pooler_output"]))


class Functions:
    def forward(self, input_ids, attention_mask):
        sentence = self.bert(input_ids, attention_mask=attention_mask).get("pooler_output")
        kept = F.dropout(sentence, p=self.dropout.p, training=True)
        weight, bias = self.classifier.weight, self.classifier.bias
        return torch.addmm(bias, kept, weight.t())
