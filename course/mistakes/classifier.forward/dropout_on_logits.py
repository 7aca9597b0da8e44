"""Dropout is applied to the logits instead of the pooled output.

Hint: A logit set to 0 is a wrong answer, not a missing feature: dropout belongs before the linear
layer.
Read: Devlin et al. 2019, §4.1
"""

import torch
from torch.nn import functional as F


class DropoutOnLogits:
    def forward(self, input_ids, attention_mask):
        outputs = self.bert(input_ids, attention_mask)
        pooled = outputs["pooler_output"]
        logits = self.classifier(pooled)
        logits = self.dropout(logits)
        return logits


class OneLine:
    def forward(self, ids, mask):
        found = self.bert(input_ids=ids, attention_mask=mask)
        return self.dropout(self.classifier(found["pooler_output"]))


class Functions:
    def forward(self, input_ids, attention_mask):
        sentence = self.bert(input_ids, attention_mask=attention_mask).get("pooler_output")
        weight, bias = self.classifier.weight, self.classifier.bias
        logits = torch.addmm(bias, sentence, weight.t())
        return F.dropout(logits, self.dropout.p, self.training)
