"""Pairs as they come, in few lines: a linear layer over both vectors, or their cosine."""

import torch
from torch.nn import functional as F


class Short:
    def predict_sentiment(self, input_ids, attention_mask):
        x = self.dropout(self(input_ids, attention_mask))
        return self.sentiment(x)

    def predict_paraphrase(self, *pair):
        u, v = self(*pair[:2]), self(*pair[2:])
        return self.paraphrase(self.dropout(torch.cat((u, v, (u - v).abs()), 1))).flatten()

    def predict_similarity(self, *pair):
        u, v = self(*pair[:2]), self(*pair[2:])
        return self.similarity(self.dropout(torch.cat((u, v, u * v), -1))).flatten()


class ShortCosine:
    def predict_similarity(self, *pair):
        u, v = self.dropout(self(*pair[:2])), self.dropout(self(*pair[2:]))
        return 5 * F.cosine_similarity(u, v)
