"""What the checks of part 2 change in a student's model from outside, and what they watch there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode


@contextlib.contextmanager
def other_padding(encoders: list[nn.Module]) -> Iterator[None]:
    """While active, [PAD] has another embedding. Its id stays, since code may look for that."""
    tables = [getattr(encoder, "word_embedding", None) for encoder in encoders]
    rows = [table.weight.data[0] for table in tables if isinstance(table, nn.Embedding)]
    before = [row.clone() for row in rows]
    try:
        for row in rows:
            row.copy_(torch.linspace(-2, 2, len(row)).sin())
        yield
    finally:
        for row, old in zip(rows, before, strict=True):
            row.copy_(old)


@contextlib.contextmanager
def loud(model: nn.Module, encoders: list[nn.Module], scale: float) -> Iterator[None]:
    """While active, BERT returns, and each own layer gets, random numbers of that scale, if any.

    Both, since some ways never call BERT's forward and others have no layers.
    """

    def noise(value: Any) -> Any:
        floating = isinstance(value, Tensor) and value.is_floating_point()
        return scale * torch.randn_like(value) if floating else value

    def replace_outputs(_module: nn.Module, _inputs: Any, outputs: Any) -> Any:
        if not isinstance(outputs, dict):
            return outputs
        return {name: noise(value) for name, value in outputs.items()}

    def replace_inputs(_module: nn.Module, inputs: tuple) -> tuple:
        return tuple(map(noise, inputs))

    inside = {module for encoder in encoders for module in encoder.modules()}
    layers = [m for m in model.modules() if isinstance(m, nn.Linear | nn.Bilinear)]
    if not scale:
        yield
        return
    hooks = [encoder.register_forward_hook(replace_outputs) for encoder in encoders]
    hooks += [m.register_forward_pre_hook(replace_inputs) for m in layers if m not in inside]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


class DropoutWatch(TorchFunctionMode):
    """While active, notes how many numbers each dropout was given that drops some."""

    def __init__(self):
        super().__init__()
        self.sizes: list[float] = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func not in (F.dropout, torch.dropout):
            return func(*args, **kwargs)
        before = (args[0] if args else kwargs["input"]).clone()  # it may be changed in place
        result = func(*args, **kwargs)
        if not torch.equal(before, result):
            self.sizes.append(float(result.numel()))
        return result


@contextlib.contextmanager
def watched(encoders: list[nn.Module], seen: list[tuple[Any, Any]]) -> Iterator[None]:
    """While active, the ids and the mask of every pass through BERT are noted."""
    ids: list[Any] = []

    def embed(method: Callable) -> Callable:
        def noting(*args: Any, **kwargs: Any) -> Any:
            ids.append(args[0] if args else kwargs.get("input_ids"))
            return method(*args, **kwargs)

        return noting

    def encode(method: Callable) -> Callable:
        def noting(*args: Any, **kwargs: Any) -> Any:
            mask = args[1] if len(args) > 1 else kwargs.get("attention_mask")
            seen.append((ids[-1] if ids else None, mask))
            return method(*args, **kwargs)

        return noting

    with contextlib.ExitStack() as stack:
        for encoder in encoders:
            for name, note in (("embed", embed), ("encode", encode)):
                own = note(getattr(encoder, name))
                stack.enter_context(mock.patch.object(encoder, name, own))
        yield
