"""What may stand before the names of a checkpoint's tensors. Needs no torch."""

from __future__ import annotations

import re
from collections.abc import Collection

FIRST = "embeddings.word_embeddings.weight"  # every BERT has it
WRAPPERS = re.compile(r"(?:(?:module|_orig_mod|model|auto_model|\d+)\.)*")


def prefix_of(names: Collection[str]) -> str:
    """What stands before the name of the word embeddings: '', 'bert.', 'module.bert.' …"""
    return next((name.removesuffix(FIRST) for name in names if name.endswith(FIRST)), "")


def unwrapped(names: Collection[str]) -> dict[str, str]:
    """Each name without what DistributedDataParallel, torch.compile or a module around BERT add."""
    wrapper = WRAPPERS.match(prefix_of(names)).group()
    return {name: name.removeprefix(wrapper) for name in names}
