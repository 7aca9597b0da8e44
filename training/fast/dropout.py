"""Dropout with cheaper random numbers, for CPUs.

PyTorch draws a number of 24 bits or more for each element, one after the other: up to a quarter of
a training step's time. Sixteen bits are enough for the same decision, and four of them fit into one
draw.
"""

from types import MethodType

import torch
from torch import Tensor, nn
from torch.nn import functional as F

VALUES = 1 << 16  # that sixteen bits have


def use_short_draws(model: nn.Module) -> None:
    """Let every ``nn.Dropout`` of a model decide by sixteen bits where it runs on a CPU."""
    for module in model.modules():
        if type(module) is nn.Dropout:
            module.forward = MethodType(dropout_by_bits, module)


def dropout_by_bits(self: nn.Dropout, x: Tensor) -> Tensor:
    """What ``nn.Dropout`` computes, with p rounded to a 65,536th; of any shape.

    An element stays with probability q = 1 − p, and is then divided by q.
    """
    dropped = round(self.p * VALUES)
    on_cpu = x.device.type == "cpu" and not torch.compiler.is_compiling()
    if not (on_cpu and self.training and 0 < dropped < VALUES):
        return F.dropout(x, self.p, self.training)
    draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    bits = draws.view(torch.int16)[: x.numel()].view(x.shape)  # from −32,768 to 32,767
    stays = (bits >= dropped - VALUES // 2).to(x.dtype)
    return x * stays.mul_(VALUES / (VALUES - dropped))
