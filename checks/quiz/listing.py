"""A function as it stands in its file, with line numbers; it needs no torch."""

from __future__ import annotations

from collections.abc import Sequence

LETTERS = "abcd"  # of options


def listing(source: str, lines: Sequence[int]) -> list[tuple[int, str]]:
    """Numbered lines of a file.

    Args:
        lines: the first and the last one, and those of the docstring, which is left out.
    """
    first, last, docstring, docstring_end = lines
    text = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return [
        (number, text[number - 1])
        for number in range(first, min(last, len(text)) + 1)
        if not docstring <= number <= docstring_end
    ]
