"""Probabilities are returned, not logits: a softmax is one too many.

Hint: The loss has a softmax inside. With two of them the largest probability of a class can
hardly rise, and learning is slow.
Read: docs/handout.md, Task 2.3
"""

from torch.nn import functional as F


class SoftmaxReturned:
    def predict_sentiment(self, input_ids, attention_mask):
        vectors = self.forward(input_ids, attention_mask)
        vectors = self.dropout(vectors)
        logits = self.sentiment(vectors)
        logits = F.softmax(logits, dim=-1)
        return logits


class ByHand:
    def predict_sentiment(self, input_ids, attention_mask):
        x = self.sentiment(self.dropout(self(input_ids, attention_mask))).exp()
        return x / x.sum(1, keepdim=True)
