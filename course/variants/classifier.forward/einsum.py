"""The linear layer as einsum, dropout by torch.dropout in place of the layer."""

import torch


class Einsum:
    def forward(self, input_ids, attention_mask):
        cls = self.bert(attention_mask=attention_mask, input_ids=input_ids)["pooler_output"]
        cls = torch.dropout(cls, self.dropout.p, train=self.training)
        head = self.classifier
        return torch.einsum("bd,cd->bc", cls, head.weight) + head.bias
