"""Dropout is applied at evaluation, too, so results change from call to call.

Hint: nn.Dropout knows by itself whether the model trains; a function like F.dropout has to be
told.
Read: docs/handout.md, Task 1.2
"""

from torch import nn
from torch.nn import functional as F


class DropoutAlwaysOn:
    def predict_sentiment(self, input_ids, attention_mask):
        vectors = self.forward(input_ids, attention_mask)
        vectors = F.dropout(vectors, 0.3)
        logits = self.sentiment(vectors)
        return logits


class NewDropout:
    def predict_sentiment(self, input_ids, attention_mask):
        drop = nn.Dropout(p=self.dropout.p)
        return self.sentiment(drop(self(input_ids, attention_mask)))
