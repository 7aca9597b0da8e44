"""BERT does not get the attention_mask, so words attend to padding.

Hint: BERT cannot know by itself where a sentence ends. A sentence must have the same logits
whether its neighbour in the batch is longer or not.
Read: docs/handout.md, Task 1.1
"""

import torch


class MaskNotGiven:
    def predict_sentiment(self, input_ids, attention_mask):
        vectors = self.forward(input_ids, torch.ones_like(attention_mask))
        vectors = self.dropout(vectors)
        logits = self.sentiment(vectors)
        return logits


class AllOnes:
    def predict_sentiment(self, input_ids, attention_mask):
        x = self.bert(input_ids, attention_mask | 1)["pooler_output"]
        return self.sentiment(self.dropout(x))
