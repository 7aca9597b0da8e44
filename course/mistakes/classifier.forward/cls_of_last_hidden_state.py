"""The last layer's state of [CLS] is taken instead of pooler_output.

Hint: BERT's pooler, a linear layer and a tanh over that state, was pretrained: pooler_output is
what comes out of it.
Read: Devlin et al. 2019, §4.1
"""

import torch
from torch.nn import functional as F


class ClsOfLastHiddenState:
    def forward(self, input_ids, attention_mask):
        outputs = self.bert(input_ids, attention_mask)
        pooled = outputs["last_hidden_state"][:, 0]
        pooled = self.dropout(pooled)
        logits = self.classifier(pooled)
        return logits


class OneLine:
    def forward(self, ids, mask):
        found = self.bert(input_ids=ids, attention_mask=mask)
        return self.classifier(self.dropout(found["last_hidden_state"].select(1, 0)))


class Functions:
    def forward(self, input_ids, attention_mask):
        sentence = (
            self.bert(input_ids, attention_mask=attention_mask)
            .get("last_hidden_state")
            .unbind(dim=1)[0]
        )
        kept = F.dropout(sentence, p=self.dropout.p, training=self.training)
        weight, bias = self.classifier.weight, self.classifier.bias
        return torch.addmm(bias, kept, weight.t())
