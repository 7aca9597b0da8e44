"""A batch of one sentence loses its axis.

Hint: squeeze() without a number takes away every axis of size 1, that of a batch of one, too.
Which one do you mean?
Read: Devlin et al. 2019, §4.1; Reimers & Gurevych 2019, §3
"""

import torch


class Squeezed:
    def forward(self, input_ids, attention_mask):
        outputs = self.bert(input_ids, attention_mask)
        vectors = outputs["pooler_output"]
        vectors = vectors.squeeze()
        return vectors


class FirstPiece:
    def forward(self, input_ids, attention_mask):
        hidden = self.bert(input_ids, attention_mask)["last_hidden_state"]
        return torch.squeeze(hidden.narrow(1, 0, 1))
