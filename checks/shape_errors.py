"""Exceptions about shapes: what they mean here, with the shapes of what the line was given.

Functions of the table checks/exceptions.toml. It does not know how any task is solved. Axes are the
course's: B sentences, L tokens, D hidden size, H heads, W = D / H width of a head.
"""

from __future__ import annotations

import re

from checks.traces import Place, quoted

OF_BERT_BASE = (768, 3072)


def size_of_bert_base(place: Place, match: re.Match) -> str:
    """A size of bert-base that is written into the code, or a multiple of its width."""
    sizes = {int(size) for size in re.findall(r"\d+", match[0])}
    heads = {12, 64}
    written = {size for size in sizes if size in OF_BERT_BASE or (size % 768 == 0 and size)}
    written |= heads if heads <= sizes else set()
    written -= place.letters().keys()
    if not written:
        return ""
    number = max(written)
    times = "" if number % 768 or number in OF_BERT_BASE else f"{number} is {number // 768} · 768. "
    return (
        f"is {768 if times else number} written in the code? {times}It is a size of bert-base, and "
        "every BERT has its own; the small one here has others: read them off config, self or a "
        "tensor"
    )


def row_out_of_table(place: Place, match: re.Match) -> str:
    """An id for which a table of embeddings has no row."""
    table, ids = place.value(place.called), place.value(place.node.args[0])
    way, edge = ("down", ids.min()) if ids.min() < 0 else ("up", ids.max())
    return (
        f"{quoted(place.called)} has {table.num_embeddings} rows, and "
        f"{quoted(place.node.args[0])} goes {way} to {edge.item()}: are these the ids for that "
        "table?"
    )
