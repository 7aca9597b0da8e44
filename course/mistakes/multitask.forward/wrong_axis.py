"""The axis of the batch is taken away instead of that of the word pieces.

Hint: The vectors of the pieces are (B, L, D), and (B, D) is asked for: which of the three axes
has to go?
Read: Devlin et al. 2019, §4.1; Reimers & Gurevych 2019, §3
"""

import torch


class WrongAxis:
    def forward(self, input_ids, attention_mask):
        outputs = self.bert(input_ids, attention_mask)
        vectors = outputs["last_hidden_state"]
        vectors = vectors[0]
        return vectors


class MeanOfBatch:
    def forward(self, input_ids, attention_mask):
        hidden = self.bert(input_ids, attention_mask)["last_hidden_state"]
        return torch.mean(hidden, dim=0)
