"""A softmax goes over the batch: sentences share one probability.

Hint: Apart from the softmax itself, which the loss has inside: along which axis does it add up
to 1?
Read: Devlin et al. 2019, §4.1
Named: rows_mixed
"""

import torch
from torch.nn import functional as F


class SoftmaxOverBatch:
    def predict_sentiment(self, input_ids, attention_mask):
        vectors = self.forward(input_ids, attention_mask)
        vectors = self.dropout(vectors)
        logits = self.sentiment(vectors)
        logits = F.softmax(logits, dim=0)
        return logits


class LogSoftmax:
    def predict_sentiment(self, input_ids, attention_mask):
        x = self.sentiment(self.dropout(self(input_ids, attention_mask)))
        return x - torch.logsumexp(x, 0)
