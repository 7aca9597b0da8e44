"""What modules return in a forward pass, collected as it runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn


@contextmanager
def outputs_of(*modules: nn.Module) -> Iterator[list[Any]]:
    """In a with block, collect what the modules return in forward passes, in their order."""
    outputs: list[Any] = []
    hooks = [m.register_forward_hook(lambda *call: outputs.append(call[-1])) for m in modules]
    try:
        yield outputs
    finally:
        for hook in hooks:
            hook.remove()
