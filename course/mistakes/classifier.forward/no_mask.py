"""BERT is not given the attention mask but ones: it attends to padding.

Hint: Without the mask a sentence's result depends on how long its neighbours in the batch are.
Read: Vaswani et al. 2017, §3.2.3
"""

import torch
from torch.nn import functional as F


class NoMask:
    def forward(self, input_ids, attention_mask):
        outputs = self.bert(input_ids, torch.ones_like(input_ids))
        pooled = outputs["pooler_output"]
        pooled = self.dropout(pooled)
        logits = self.classifier(pooled)
        return logits


class OneLine:
    def forward(self, ids, mask):
        found = self.bert(input_ids=ids, attention_mask=torch.ones(*ids.shape, dtype=ids.dtype))
        return self.classifier(self.dropout(found["pooler_output"]))


class Functions:
    def forward(self, input_ids, attention_mask):
        sentence = self.bert(input_ids, attention_mask=attention_mask | 1).get("pooler_output")
        kept = F.dropout(sentence, p=self.dropout.p, training=self.training)
        weight, bias = self.classifier.weight, self.classifier.bias
        return torch.addmm(bias, kept, weight.t())
