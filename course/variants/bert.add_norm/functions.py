"""torch's functions with the modules' weights."""

import torch
from torch.nn import functional as F


class Functions:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        dropped = torch.dropout(dense_layer(output), dropout.p, self.training)
        shape = ln_layer.normalized_shape
        return F.layer_norm(dropped + input, shape, ln_layer.weight, ln_layer.bias, ln_layer.eps)
