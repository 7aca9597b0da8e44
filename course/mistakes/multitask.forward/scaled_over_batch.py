"""Vectors are scaled over the batch, so one sentence depends on the others.

Hint: What your model says of a sentence must not depend on which other sentences stand in the
batch. Along which axis do you scale?
Read: Devlin et al. 2019, §4.1; Reimers & Gurevych 2019, §3
Named: rows_mixed
"""

from torch.nn import functional as F


class ScaledOverBatch:
    def forward(self, input_ids, attention_mask):
        outputs = self.bert(input_ids, attention_mask)
        vectors = outputs["pooler_output"]
        vectors = F.normalize(vectors, dim=0)
        return vectors


class Standardised:
    def forward(self, input_ids, attention_mask):
        x = self.bert(input_ids, attention_mask)["pooler_output"]
        return (x - x.mean(0, keepdim=True)) / (x.std(0, keepdim=True) + 1e-5)
