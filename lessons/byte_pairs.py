"""Byte-level byte-pair encoding, which cuts text for GPT-2 and RoBERTa.

lessons/wordpiece_training.py learns it. A text is its bytes in UTF-8, so 256 pieces spell any text,
and nothing is unknown. A blank belongs to the word behind it, which makes the cut reversible
(Radford et al. 2019, section 2.2).
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

from training.files.writing import atomic_write, write_json

SPECIAL_TOKENS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")  # RoBERTa's


def byte_characters() -> str:
    """A printable character for each byte, which stands for it in files: a blank is 'Ġ'.

    A byte that is printable in Latin-1 is its own; the others follow from number 256 on.
    """
    own = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), 256)}
    others = iter(range(256, 512))
    return "".join(chr(byte if byte in own else next(others)) for byte in range(256))


BYTES = byte_characters()
TO_BYTE = {character: byte for byte, character in enumerate(BYTES)}


def spell_bytes(text: str) -> list[str]:
    """A text as the characters of its bytes: ' né' → Ġ, n, Ã, ©."""
    return [BYTES[byte] for byte in text.encode()]


@cache
def stretches() -> re.Pattern[str]:
    """Stretches that a piece stays within: an ending like 's; letters, digits or signs; blanks.

    GPT-2's pattern; Python has no name for its letters and numbers, which are Unicode's L and N.
    """
    every = map(chr, range(sys.maxunicode + 1))
    numbers = "".join(c for c in every if unicodedata.category(c) in ("Nl", "No"))
    return re.compile(
        rf"'(?:[stmd]|re|ve|ll)| ?[^\W\d_{numbers}]+| ?[\d{numbers}]+| ?(?:[^\s\w]|_)+"
        r"|\s+(?!\S)|\s+"
    )


def count_stretches(texts: Iterable[str]) -> Counter[str]:
    """How often each stretch occurs; it is cut into pieces independently of the others."""
    return Counter(part for text in texts for part in stretches().findall(text.strip()))


def join(spelled: Sequence[str], first: str, second: str, piece: str) -> list[str]:
    """The spelling with every ``first second`` replaced by ``piece``, from the left."""
    joined: list[str] = []
    for symbol in spelled:
        if symbol == second and joined and joined[-1] == first:
            joined[-1] = piece
        else:
            joined.append(symbol)
    return joined


class BytePairTokenizer:
    """Text → pieces, which have their ids' order, and back; ``merges`` are in the order learned."""

    def __init__(self, pieces: Sequence[str], merges: Sequence[tuple[str, str]]):
        self.pieces = list(pieces)
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}

    def __len__(self) -> int:
        return len(self.pieces)

    def tokenize(self, text: str) -> list[str]:
        """The pieces of a text."""
        return [piece for part in stretches().findall(text) for piece in self.cut(part)]

    def cut(self, stretch: str) -> list[str]:
        """The pieces of one stretch: pairs are joined in the order in which they were learned."""
        spelled = spell_bytes(stretch)
        while known := self.ranks.keys() & set(pairwise(spelled)):
            first, second = min(known, key=self.ranks.__getitem__)
            spelled = join(spelled, first, second, first + second)
        return spelled

    def decode(self, pieces: Sequence[str]) -> str:
        """The text that was cut into these pieces."""
        return bytes(TO_BYTE[character] for character in "".join(pieces)).decode(errors="replace")

    def save_pretrained(self, folder: str | Path) -> None:
        """Write vocab.json and merges.txt, which transformers' RobertaTokenizer reads."""
        ids = {piece: number for number, piece in enumerate(self.pieces)}
        write_json(Path(folder) / "vocab.json", ids)
        with atomic_write(Path(folder) / "merges.txt") as file:
            file.write("#version: 0.2\n")
            file.writelines(f"{first} {second}\n" for first, second in self.ranks)
