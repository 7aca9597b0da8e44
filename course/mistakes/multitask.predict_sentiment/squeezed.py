"""A batch of one sentence loses its axis.

Hint: squeeze() without a number takes away every axis of size 1, that of a batch of one, too.
Which one do you mean, if any?
Read: Devlin et al. 2019, §4.1
"""

import torch
from torch.nn import functional as F


class Squeezed:
    def predict_sentiment(self, input_ids, attention_mask):
        vectors = self.forward(input_ids, attention_mask)
        vectors = self.dropout(vectors)
        logits = self.sentiment(vectors)
        logits = logits.squeeze()
        return logits


class AsMatrixTimesVector:
    def predict_sentiment(self, input_ids, attention_mask):
        x = self.dropout(self(input_ids, attention_mask))
        return torch.squeeze(F.linear(x, self.sentiment.weight, self.sentiment.bias))
