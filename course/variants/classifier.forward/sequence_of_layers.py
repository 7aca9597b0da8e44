"""An nn.Sequential made of the layers at each call."""

from torch import nn


class SequenceOfLayers:
    def forward(self, input_ids, attention_mask):
        outputs = dict(self.bert(input_ids, attention_mask))
        head = nn.Sequential(self.dropout, self.classifier)
        return head.train(self.training)(outputs.pop("pooler_output"))
