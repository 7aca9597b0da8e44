"""Dropout is applied twice: to the pooled output and to the logits.

Hint: A logit set to 0 is a wrong answer, not a missing feature: once, before the linear layer, is
enough.
Read: Devlin et al. 2019, §4.1
"""


class DropoutTwice:
    def forward(self, input_ids, attention_mask):
        outputs = self.bert(input_ids, attention_mask)
        pooled = outputs["pooler_output"]
        pooled = self.dropout(pooled)
        logits = self.classifier(pooled)
        logits = self.dropout(logits)
        return logits


class OneLine:
    def forward(self, ids, mask):
        found = self.bert(input_ids=ids, attention_mask=mask)
        return self.dropout(self.classifier(self.dropout(found["pooler_output"])))
