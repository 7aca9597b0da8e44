"""BERT runs without gradients, so fine-tuning never reaches it.

Hint: Freezing is the business of requires_grad, and only with --option pretrain. What do
no_grad, detach and .data do to all that is computed before them?
Read: Devlin et al. 2019, §4.1; Reimers & Gurevych 2019, §3
Named: cut_off
"""

import torch


class NoGrad:
    def forward(self, input_ids, attention_mask):
        with torch.no_grad():
            outputs = self.bert(input_ids, attention_mask)
        vectors = outputs["pooler_output"]
        return vectors


class Detached:
    def forward(self, input_ids, attention_mask):
        return self.bert(input_ids, attention_mask)["pooler_output"].detach()


class Data:
    def forward(self, input_ids, attention_mask):
        hidden = self.bert.encode(self.bert.embed(input_ids), attention_mask)
        return hidden[:, 0].data
