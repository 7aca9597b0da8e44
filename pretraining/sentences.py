"""A paragraph → its sentences, by rule."""

from __future__ import annotations

import re

_OPENING, _CLOSING = "\"'“‘«([*_—", "\"'”’»)\\]*_"
# A run of marks, closing quotes, white space, opening quotes and the next letter or digit. The
# possessive quantifiers and the look-behind keep it linear on any text.
_SENTENCE_END = re.compile(
    rf"(?<![.!?…])([.!?…]++)([{_CLOSING}]*+)\s++(?=[{re.escape(_OPENING)}]*+([^\W_]))"
)
_DOTTED = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]")  # J.R, U.S, e.g (its last dot is the mark)
_TITLES = frozenset(  # a name follows them, or the same sentence goes on
    "mr mrs ms messrs mm mme mlle dr st ste prof rev hon gen col capt lt sgt maj cpl gov sen rep "
    "pres supt sr jr esq mt ft vs viz cf etc inc ltd co corp jan feb mar apr aug sept oct nov dec"
    "".split()
)
_COUNTED = frozenset("no nos vol vols p pp fig figs ch chap sec art ed op".split())  # then a number


def split_sentences(text: str) -> list[str]:
    """The sentences of a paragraph, by rule.

    A sentence ends with . ! ? or …, closing quotes after it, white space, and then a capital
    letter or a digit; not after a title (Mr. Smith), an initial (J. Smith), a dotted abbreviation
    (U.S. Army; but a.m. and p.m. may end one), "No." before a number, or a number that a
    paragraph begins with ("1. Origins").
    """
    sentences, start = [], 0
    for match in _SENTENCE_END.finditer(text):
        mark, closing, following = match.groups()
        if following.isalpha() and following.lower() == following != following.upper():
            continue  # goes on with a small letter
        if mark == "." and not closing:
            before = text[max(start, match.start() - 32) : match.start()].split()
            word = before[-1].lstrip(_OPENING) if before else ""
            if _is_abbreviation(word, following):
                continue
            if word.isdigit() and len(before) == 1 and match.start() - start < 32:
                continue  # a number alone counts what follows
        sentences.append(text[start : match.end()].strip())
        start = match.end()
    sentences.append(text[start:].strip())
    return [sentence for sentence in sentences if sentence]


def _is_abbreviation(word: str, following: str) -> bool:
    """Whether the full stop after ``word`` ends no sentence; ``following``: the next character."""
    small = word.lower()
    if small in _TITLES or (len(word) == 1 and word.isupper() and word != "I"):
        return True
    if _DOTTED.fullmatch(word):
        return small not in ("a.m", "p.m")
    return small in _COUNTED and following.isdigit()
