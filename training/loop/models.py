"""Questions to a model: what its modules return, and whether its BERT takes pairs as segments."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from training.files.errors import InputError


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


def check_segments(bert: Any, what: str) -> None:
    """InputError if ``what``, which needs two segments, has a BERT that knows only one.

    Either its ``embed`` takes no segment ids, or its table has no row for a second segment.
    """
    if "token_type_ids" not in inspect.signature(bert.embed).parameters:
        remedy = "give it token_type_ids=None as its second argument"
        raise InputError(f"{what} needs segment ids, but embed in bert.py takes none: {remedy}")
    if bert.config.type_vocab_size < 2:
        where = f"{bert.name_or_path} knows one (type_vocab_size 1)"
        raise InputError(f"{what} needs two segments, but {where}; take another model")
