"""Unicode categories as BERT's original vocabulary was built with: those of 2015 (Unicode 8).

A mark or punctuation sign added to Unicode later is an unknown letter to BERT. Python's own tables
differ from version to version; with this list the tokenizer gives the same ids in all of them.
"""

import unicodedata

# Marks, punctuation and format characters assigned after Unicode 8 (up to 18), hexadecimal, with
# what lies between them merged into ranges where that makes no difference.
_ADDED_LATER = """
    5c8-5c9 61d 7fd 890-8e2 9fd-9fe a76 afa-aff b53-b55 c04-c3c c77 c84 d00 d3b-d3c d81 eba
    ece 180f-1886 1abf-1af0 1b4e-1b4f 1b7d-1b7f 1df6-1dfb 2e43-2e63 a82c a8c5 a8ff a9bd
    10d24-10f89 11070-11074 110c2-110cd 111cf 1123e-11241 1133b 113bb-1145e 11660-1166c
    116b9 1182f-11fff 12ff1-1612f 16d6d-16f4f 16fe2-16fe4 1cf00-1d128 1d25b-1d25c 1e000-1e6f5
    1e944-1e95f
"""
# Characters whose category has changed since.
_MOVED = {"\u166d": "Po", "\u1734": "Mn", "\U000111c9": "Po", "\U0001171e": "Mn"}


def _parse(ranges: str) -> frozenset[str]:
    ends = ([int(end, 16) for end in item.split("-")] for item in ranges.split())
    return frozenset(chr(point) for end in ends for point in range(end[0], end[-1] + 1))


_LETTERS = _parse(_ADDED_LATER)


def category(character: str) -> str:
    """The two-letter general category of a character, as of Unicode 8 where it matters."""
    if character in _LETTERS:
        return "Lo"
    return _MOVED.get(character) or unicodedata.category(character)
