"""The pooled output is returned: the linear layer is not called.

Hint: The layer made in __init__ makes logits of classes of BERT's embedding.
Read: Devlin et al. 2019, §4.1
"""

from torch.nn import functional as F


class NoLinear:
    def forward(self, input_ids, attention_mask):
        outputs = self.bert(input_ids, attention_mask)
        pooled = outputs["pooler_output"]
        pooled = self.dropout(pooled)
        return pooled


class OneLine:
    def forward(self, ids, mask):
        found = self.bert(input_ids=ids, attention_mask=mask)
        return self.dropout(found["pooler_output"])


class Functions:
    def forward(self, input_ids, attention_mask):
        sentence = self.bert(input_ids, attention_mask=attention_mask).get("pooler_output")
        kept = F.dropout(sentence, p=self.dropout.p, training=self.training)
        return kept
