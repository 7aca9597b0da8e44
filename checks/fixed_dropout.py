"""Dropout without chance, and the floating-point type in which a student's code is run.

Attention with dropout is compared number by number: while ``FixedDropout`` is active the same
positions are dropped however the computation is written.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode


def kept(length: int, p: float, like: Tensor) -> Tensor:
    """A fixed dropout mask (length,): every third number is dropped, the others are scaled up."""
    keep = torch.arange(length) % 3 != 1
    return keep.to(like) / (1 - p) if p < 1 else torch.zeros(length).to(like)


class FixedDropout(TorchFunctionMode):
    """While active, dropout drops the same positions along one axis of every tensor.

    Only that axis counts, so that it makes no difference whether heads or sentences are computed
    together or in a loop. Attention drops keys: what scaled_dot_product_attention would do inside
    is done to the values' rows before it.

    Args:
        axis: along which positions are dropped.
    """

    def __init__(self, axis: int = -1):
        super().__init__()
        self.axis = axis
        self.acted = False  # whether anything was dropped
        self.called: set[object] = set()  # functions of torch

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        self.called.add(func)
        if func in (F.dropout, torch.dropout):
            # torch's own is called as well: it raises what it raises
            func(*args, **kwargs | ({"inplace": False} if func is F.dropout else {}))
            return self.dropout(*args, **kwargs)
        if func is F.scaled_dot_product_attention:
            return self.attention(*args, **kwargs)
        return func(*args, **kwargs)

    def dropout(self, input, p=0.5, training=True, inplace=False, train=None):
        """In place of F.dropout and torch.dropout."""
        if not (training if train is None else train) or p == 0:
            return input
        self.acted = True
        mask = kept(input.size(self.axis), p, input)
        mask = mask if self.axis == -1 else mask[:, None]
        return input.mul_(mask) if inplace else input * mask

    def attention(self, query, key, value, attn_mask=None, dropout_p=0.0, **options):
        """In place of F.scaled_dot_product_attention."""
        if dropout_p:
            self.acted = True
            value = value * kept(value.size(-2), dropout_p, value)[:, None]
        return F.scaled_dot_product_attention(query, key, value, attn_mask, **options)


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """The type of what the student's code makes: parameters, torch.tensor(0.5), torch.zeros(3)."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
