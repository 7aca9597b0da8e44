"""The norm is always the one after attention, whatever was passed in.

Hint: The function is called twice in a layer, each time with other modules. Use those of the
caller.
Read: docs/handout.md, Task 1.2
"""

import torch
from torch.nn import functional as F


class AlwaysAttentionsNorm:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        output = dense_layer(output)
        output = dropout(output)
        total = input + output
        total = self.attention_layer_norm(total)
        return total


class Functions:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        norm = self.attention_layer_norm
        total = torch.dropout(dense_layer(output), dropout.p, self.training) + input
        return F.layer_norm(total, total.shape[-1:], norm.weight, norm.bias, norm.eps)
