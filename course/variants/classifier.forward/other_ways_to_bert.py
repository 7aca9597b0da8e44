"""BERT is called otherwise than by self.bert(input_ids, attention_mask)."""

import torch
from torch.nn import functional as F


class StepByStep:
    def forward(self, input_ids, attention_mask):
        states = self.bert.encode(self.bert.embed(input_ids), attention_mask)
        pooled = self.bert.pooler_af(self.bert.pooler_dense(states[:, 0]))
        return self.classifier(self.dropout(pooled))


class OfOtherTypes:
    def forward(self, input_ids, attention_mask):
        outputs = self.bert(attention_mask=attention_mask.bool(), input_ids=input_ids.int())
        return self.classifier(self.dropout(outputs["pooler_output"]))


class InTwoParts:
    def forward(self, input_ids, attention_mask):
        input_ids, attention_mask = F.pad(input_ids, (0, 3)), F.pad(attention_mask, (0, 3))
        parts = zip(input_ids.split(2), attention_mask.split(2), strict=True)
        pooled = torch.cat([self.bert(*part)["pooler_output"] for part in parts])
        return self.classifier(self.dropout(pooled))
