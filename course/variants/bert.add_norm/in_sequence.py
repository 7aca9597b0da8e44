"""nn.Sequential of the modules that are passed in."""

import torch
from torch import nn


class InSequence:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        transform = nn.Sequential(dense_layer, dropout)
        return ln_layer(torch.add(transform(output), input))
