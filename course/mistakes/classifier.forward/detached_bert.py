"""No gradient reaches BERT: it is called under torch.no_grad(), or its output is detached.

Hint: With --option finetune BERT learns, too; which parameters are frozen is __init__'s affair.
Read: Devlin et al. 2019, §4.1
"""

import torch
from torch.nn import functional as F


class DetachedBert:
    def forward(self, input_ids, attention_mask):
        outputs = self.bert(input_ids, attention_mask)
        pooled = outputs["pooler_output"].detach()
        pooled = self.dropout(pooled)
        logits = self.classifier(pooled)
        return logits


class OneLine:
    def forward(self, ids, mask):
        with torch.no_grad():
            found = self.bert(input_ids=ids, attention_mask=mask)
        return self.classifier(self.dropout(found["pooler_output"]))


class Functions:
    def forward(self, input_ids, attention_mask):
        sentence = self.bert(input_ids, attention_mask=attention_mask).get("pooler_output").data
        kept = F.dropout(sentence, p=self.dropout.p, training=self.training)
        weight, bias = self.classifier.weight, self.classifier.bias
        return torch.addmm(bias, kept, weight.t())
