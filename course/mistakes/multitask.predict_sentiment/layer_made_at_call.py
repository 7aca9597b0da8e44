"""The linear layer is made in the function: it is new, and random, at every call.

Hint: To learn, a layer has to live as long as the model does. Where are the others made?
Read: Devlin et al. 2019, §4.1
"""

import torch
from torch import nn


class LayerMadeAtCall:
    def predict_sentiment(self, input_ids, attention_mask):
        vectors = self.forward(input_ids, attention_mask)
        vectors = self.dropout(vectors)
        layer = nn.Linear(vectors.size(-1), 5)
        logits = layer(vectors)
        return logits


class Attribute:
    def predict_sentiment(self, input_ids, attention_mask):
        x = self.dropout(self(input_ids, attention_mask))
        self.sentiment = nn.Sequential(nn.Linear(x.size(1), 20), nn.ReLU(), nn.Linear(20, 5))
        return self.sentiment(x)


class BeforeTheLast:
    def predict_sentiment(self, input_ids, attention_mask):
        x = self.forward(input_ids, attention_mask)
        x = torch.relu(nn.Linear(x.size(1), x.size(1))(x))
        return self.sentiment(self.dropout(x))
