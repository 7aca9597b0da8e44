"""The mean of the last layer's states is taken instead of pooler_output.

Hint: pooler_output is the embedding of the sentence. (And a mean over all columns counts
padding.)
Read: Devlin et al. 2019, §4.1
"""

import torch
from torch.nn import functional as F


class MeanOfLastHiddenState:
    def forward(self, input_ids, attention_mask):
        outputs = self.bert(input_ids, attention_mask)
        pooled = outputs["last_hidden_state"].mean(dim=1)
        pooled = self.dropout(pooled)
        logits = self.classifier(pooled)
        return logits


class OneLine:
    def forward(self, ids, mask):
        found = self.bert(input_ids=ids, attention_mask=mask)
        return self.classifier(self.dropout(found["last_hidden_state"].sum(1) / ids.size(1)))


class Functions:
    def forward(self, input_ids, attention_mask):
        sentence = (
            self.bert(input_ids, attention_mask=attention_mask)
            .get("last_hidden_state")
            .transpose(1, 2)
            .mean(-1)
        )
        kept = F.dropout(sentence, p=self.dropout.p, training=self.training)
        weight, bias = self.classifier.weight, self.classifier.bias
        return torch.addmm(bias, kept, weight.t())
