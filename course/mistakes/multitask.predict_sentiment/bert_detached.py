"""The vectors are cut off from BERT, so fine-tuning never reaches it.

Hint: Freezing is the business of requires_grad, and only with --option pretrain. What do
no_grad and detach do to all that is computed before them?
Read: Devlin et al. 2019, §4.1
"""

import torch


class BertDetached:
    def predict_sentiment(self, input_ids, attention_mask):
        vectors = self.forward(input_ids, attention_mask)
        vectors = vectors.detach()
        vectors = self.dropout(vectors)
        logits = self.sentiment(vectors)
        return logits


class NoGrad:
    def predict_sentiment(self, input_ids, attention_mask):
        with torch.no_grad():
            x = self(input_ids, attention_mask)
        return self.sentiment(self.dropout(x))


class NewTensor:
    def predict_sentiment(self, input_ids, attention_mask):
        x = torch.tensor(self(input_ids, attention_mask).tolist())
        return self.sentiment(self.dropout(x))
