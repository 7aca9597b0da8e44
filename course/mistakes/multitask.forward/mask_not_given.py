"""BERT does not get the attention_mask, so words attend to padding.

Hint: BERT cannot know by itself where a sentence ends. A sentence must have the same vector
whether its neighbour in the batch is longer or not.
Read: docs/handout.md, Task 1.1
"""

import torch


class MaskNotGiven:
    def forward(self, input_ids, attention_mask):
        outputs = self.bert(input_ids, torch.ones_like(input_ids))
        vectors = outputs["pooler_output"]
        return vectors


class FromItsParts:
    def forward(self, input_ids, attention_mask):
        everything = torch.full(input_ids.shape, 1)
        hidden = self.bert.encode(self.bert.embed(input_ids), everything)
        return self.bert.pooler_af(self.bert.pooler_dense(hidden[:, 0]))
