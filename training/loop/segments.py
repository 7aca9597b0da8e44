"""Whether a BERT takes pairs as two segments, which not every one does."""

import inspect
from typing import Any

from training.files.errors import InputError


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
