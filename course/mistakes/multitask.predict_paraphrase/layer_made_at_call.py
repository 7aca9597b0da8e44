"""The linear layer is made in the function: it is new, and random, at every call.

Hint: To learn, a layer has to live as long as the model does. Where are the others made?
Read: Reimers & Gurevych 2019, §3
"""

import torch
from torch import nn


class LayerMadeAtCall:
    def predict_paraphrase(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        first = self.forward(input_ids_1, attention_mask_1)
        second = self.forward(input_ids_2, attention_mask_2)
        pair = torch.cat([first, second, (first - second).abs()], dim=-1)
        pair = self.dropout(pair)
        layer = nn.Linear(pair.size(-1), 1)
        logits = layer(pair)
        logits = logits.squeeze(-1)
        return logits


class RandomWeights:
    def predict_paraphrase(self, *pair):
        u, v = self.dropout(self(*pair[:2])), self.dropout(self(*pair[2:]))
        form = torch.empty(u.size(1), v.size(1))
        nn.init.xavier_uniform_(form)
        return torch.einsum("bi,ij,bj->b", u, form, v)


class BeforeTheLast:
    def predict_paraphrase(self, *pair):
        project = nn.Linear(self.sentiment.in_features, self.sentiment.in_features)
        u, v = project(self(*pair[:2])), project(self(*pair[2:]))
        return self.paraphrase(self.dropout(torch.cat((u, v, (u - v).abs()), 1))).flatten()
