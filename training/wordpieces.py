"""Text → ids of word pieces: clean, lower-case, split, WordPiece. Needs no torch.

Gives the same ids as Hugging Face's bert-base-uncased tokenizer. It is fast because the pieces of a
word depend on that word alone: each word is split once and remembered.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from training.files.errors import InputError

MAX_WORD_LENGTH = 100  # characters; a longer word becomes [UNK]
MAX_REMEMBERED_WORDS = 200_000  # a bound on memory, some 40 MB; then it forgets and starts afresh
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

# What str.split() takes for white space but BERT deletes as control characters.
_SPLIT_BUT_DELETED = re.compile("[\x0b\x0c\x1c-\x1f\x85]")
_DELETED = ("Cc", "Cf", "Co", "Cs")  # categories: control, format, private use, surrogate
_SYMBOLS = "$+<=>^`|~"  # BERT takes these for punctuation, as Unicode does all other ASCII marks
_SPECIAL = re.compile("(" + "|".join(re.escape(token) for token in SPECIAL_TOKENS) + ")")
_CJK = re.compile(  # Chinese characters; BERT makes each of them a word
    "([\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df"
    "\U0002a700-\U0002b81f\U0002b920-\U0002ceaf\U0002f800-\U0002fa1f])"
)


class WordPieces(dict):
    """word → tuple of ids, computed on the first request and remembered from then on.

    Args:
        pieces: the vocabulary, in the order of its ids.
        lower_case: lower-case and strip accents, as the uncased models want.
    """

    def __init__(self, pieces: Sequence[str], lower_case: bool):
        super().__init__()
        self.pieces = list(pieces)
        self.vocab = {piece: i for i, piece in enumerate(self.pieces)}
        self.lower_case = lower_case
        missing = [token for token in SPECIAL_TOKENS if token not in self.vocab]
        if missing:
            raise InputError(f"the vocabulary lacks {', '.join(missing)}; it is not one of a BERT")

    def __missing__(self, word: str) -> tuple[int, ...]:
        ids = tuple(self.split_raw_word(word))
        if len(self) >= MAX_REMEMBERED_WORDS:
            self.clear()
        if len(word) <= MAX_WORD_LENGTH:
            self[word] = ids
        return ids

    def text_to_ids(self, text: str) -> list[int]:
        """Ids of a text, without [CLS] and [SEP]."""
        text = _SPLIT_BUT_DELETED.sub("\0", text)  # NUL is deleted as well, but later
        return list(chain.from_iterable(map(self.__getitem__, text.split())))

    def split_raw_word(self, text: str) -> list[int]:
        """Ids of a stretch of text without white space; [MASK] and the like stay whole."""
        ids = []
        # text, special token, text, special token, …, text
        for part in _SPECIAL.split(text) if "[" in text else (text,):
            if part in SPECIAL_TOKENS:
                ids.append(self.vocab[part])
            else:
                for word in split_at_punctuation(normalise(part, self.lower_case)):
                    ids += self.wordpiece(word)
        return ids

    def wordpiece(self, word: str) -> list[int]:
        """Greedy longest match first; pieces after the first begin with ## (Wu et al. 2016)."""
        if len(word) > MAX_WORD_LENGTH:
            return [self.vocab["[UNK]"]]
        ids, rest, prefix, vocab = [], word, 0, self.vocab  # prefix: length of the ## in front
        while len(rest) > prefix:
            for end in range(len(rest), prefix, -1):
                if rest[:end] in vocab:
                    break
            else:
                return [vocab["[UNK]"]]
            ids.append(vocab[rest[:end]])
            rest, prefix = "##" + rest[end:], 2
        return ids


def read_vocabulary(folder: Path) -> tuple[list[str], bool]:
    """The pieces of a model's folder in the order of their ids, and whether text is lower-cased.

    Raises:
        InputError: there are none, they cannot be read, or they are more than the model's
            config.json says it has vectors for.
    """
    try:
        vocab, lower_case, rows = _read_tokenizer_files(folder)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"the tokenizer's files in {folder} are damaged ({type(error).__name__}: {error}); "
            "fetch the model again"
        ) from error
    if not vocab:
        raise InputError(f"{folder} holds no vocabulary (vocab.txt or tokenizer.json)")
    if len(vocab) > (rows or len(vocab)):
        raise InputError(
            f"the vocabulary in {folder} has {len(vocab):,} pieces, the model {rows:,} "
            "(config.json); take the vocabulary that the model was trained with"
        )
    return vocab, lower_case


def _read_tokenizer_files(folder: Path) -> tuple[list[str], bool, int | None]:
    """The pieces, whether text is lower-cased, and how many vectors the model has, if known."""
    config, settings, whole = (
        json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
        for file in map(folder.joinpath, ("config.json", "tokenizer_config.json", "tokenizer.json"))
    )
    normalizer = whole.get("normalizer") or {}
    lower_case = settings.get("do_lower_case", normalizer.get("lowercase", True))
    if (folder / "vocab.txt").is_file():
        # split("\n"), because splitlines() would also split inside odd pieces
        vocab = (folder / "vocab.txt").read_text(encoding="utf-8").rstrip("\n").split("\n")
    elif whole:
        vocab = sorted(whole["model"]["vocab"], key=whole["model"]["vocab"].get)
    else:
        vocab = []
    return vocab, lower_case, config.get("vocab_size")


# ---------------------------------------------------------------------------------------------
# Unicode categories as BERT's original vocabulary was built with: those of 2015 (Unicode 8). A mark
# or punctuation sign added to Unicode later is an unknown letter to BERT. Python's own tables
# differ from version to version; with this list the tokenizer gives the same ids in all of them.

# Marks, punctuation and format characters assigned after Unicode 8 (up to 18), hexadecimal, with
# what lies between them merged into ranges where that makes no difference.
ADDED_LATER = """
    5c8-5c9 61d 7fd 890-8e2 9fd-9fe a76 afa-aff b53-b55 c04-c3c c77 c84 d00 d3b-d3c d81 eba
    ece 180f-1886 1abf-1af0 1b4e-1b4f 1b7d-1b7f 1df6-1dfb 2e43-2e63 a82c a8c5 a8ff a9bd
    10d24-10f89 11070-11074 110c2-110cd 111cf 1123e-11241 1133b 113bb-1145e 11660-1166c
    116b9 1182f-11fff 12ff1-1612f 16d6d-16f4f 16fe2-16fe4 1cf00-1d128 1d25b-1d25c 1e000-1e6f5
    1e944-1e95f
"""
# Characters whose category has changed since.
MOVED = {"\u166d": "Po", "\u1734": "Mn", "\U000111c9": "Po", "\U0001171e": "Mn"}


def _parse(ranges: str) -> frozenset[str]:
    ends = ([int(end, 16) for end in item.split("-")] for item in ranges.split())
    return frozenset(chr(point) for end in ends for point in range(end[0], end[-1] + 1))


_LETTERS = _parse(ADDED_LATER)


def category(character: str) -> str:
    """The two-letter general category of a character, as of Unicode 8 where it matters."""
    if character in _LETTERS:
        return "Lo"
    return MOVED.get(character) or unicodedata.category(character)


# ---------------------------------------------------------------------------------------------
# Words


def normalise(text: str, lower_case: bool = True) -> str:
    """A word without control characters and accents, lower-cased, with spaces around CJK."""
    if not (text.isascii() and text.isprintable()):  # most words are: a short cut
        text = "".join(c for c in text if c != "\ufffd" and category(c) not in _DELETED)
        text = _CJK.sub(r" \1 ", text)
        if lower_case:
            decomposed = unicodedata.normalize("NFD", text)
            text = "".join(c for c in decomposed if category(c) != "Mn")
            # Characters one by one: str.lower() on a word knows of the final sigma, BERT does not.
            return "".join(c.lower() for c in text)
    return text.lower() if lower_case else text


def split_at_punctuation(text: str) -> list[str]:
    """Words and punctuation marks, each mark on its own; white space separates and vanishes."""
    if text.isalnum():  # no punctuation and no space: a short cut
        return [text]
    return "".join(f" {c} " if category(c)[0] == "P" or c in _SYMBOLS else c for c in text).split()
