"""BERT's tokenizer by hand: text → ids of word pieces, and back.

A text is cleaned, lower-cased and split at white space and punctuation; WordPiece then splits each
word greedily into the longest pieces of the vocabulary (Wu et al. 2016, section 4.1). The ids are
those of Hugging Face's bert-base-uncased tokenizer. torch is needed where tensors are asked for.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from training.files.errors import InputError
from training.files.folder import MODEL_MAX_LENGTH, SPECIAL_TOKENS, read_vocabulary
from training.files.hub import find_model
from training.files.writing import write_json, write_whole

_GLUED = (".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re")  # decoded without a space before
MAX_WORD_LENGTH = 100  # characters; a longer word becomes [UNK]
MAX_REMEMBERED_WORDS = 200_000  # a bound on memory, some 40 MB

# What str.split() takes for white space but BERT deletes as control characters.
_SPLIT_BUT_DELETED = re.compile("[\x0b\x0c\x1c-\x1f\x85]")
_DELETED = ("Cc", "Cf", "Co", "Cs")  # categories: control, format, private use, surrogate
_SYMBOLS = "$+<=>^`|~"  # BERT takes these for punctuation, as Unicode does all other ASCII marks
_SPECIAL = re.compile("(" + "|".join(re.escape(token) for token in SPECIAL_TOKENS) + ")")
_CJK = re.compile(  # Chinese characters; BERT makes each of them a word
    "([\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df"
    "\U0002a700-\U0002b81f\U0002b920-\U0002ceaf\U0002f800-\U0002fa1f])"
)

# BERT's vocabulary was built with the categories of Unicode 8: a mark or punctuation sign that
# Unicode added later is an unknown letter. Python's own tables differ from version to version; with
# this list of such characters (up to Unicode 18, hexadecimal, merged into ranges where what lies
# between makes no difference) the ids are the same in all of them.
ADDED_LATER = """
    5c8-5c9 61d 7fd 890-8e2 9fd-9fe a76 afa-aff b53-b55 c04-c3c c77 c84 d00 d3b-d3c d81 eba
    ece 180f-1886 1abf-1af0 1b4e-1b4f 1b7d-1b7f 1df6-1dfb 2e43-2e63 a82c a8c5 a8ff a9bd
    10d24-10f89 11070-11074 110c2-110cd 111cf 1123e-11241 1133b 113bb-1145e 11660-1166c
    116b9 1182f-11fff 12ff1-1612f 16d6d-16f4f 16fe2-16fe4 1cf00-1d128 1d25b-1d25c 1e000-1e6f5
    1e944-1e95f
"""
# Characters whose category has changed since.
MOVED = {"\u166d": "Po", "\u1734": "Mn", "\U000111c9": "Po", "\U0001171e": "Mn"}


_ENDS = [[int(end, 16) for end in item.split("-")] for item in ADDED_LATER.split()]
_LETTERS = {chr(point) for end in _ENDS for point in range(end[0], end[-1] + 1)}


def category(character: str) -> str:
    """The two-letter general category of a character, as of Unicode 8 where it matters."""
    if character in _LETTERS:
        return "Lo"
    return MOVED.get(character) or unicodedata.category(character)


def normalise(text: str, lower_case: bool = True) -> str:
    """A word without control characters, Chinese ones apart; small letters without accents."""
    if text.isascii() and text.isprintable():  # most words are: a short cut
        return text.lower() if lower_case else text
    text = "".join(c for c in text if c != "\ufffd" and category(c) not in _DELETED)
    text = _CJK.sub(r" \1 ", text)
    if not lower_case:
        return text
    text = "".join(c for c in unicodedata.normalize("NFD", text) if category(c) != "Mn")
    # Characters one by one: str.lower() on a word knows of the final sigma, BERT does not.
    return "".join(c.lower() for c in text)


def split_at_punctuation(text: str) -> list[str]:
    """Words and punctuation marks, each mark on its own; white space separates and vanishes."""
    if text.isalnum():  # no punctuation and no space: a short cut
        return [text]
    return "".join(f" {c} " if category(c)[0] == "P" or c in _SYMBOLS else c for c in text).split()


class BatchEncoding(dict):
    """input_ids, token_type_ids and attention_mask, to be read as keys or as attributes."""

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise AttributeError(name)
        return self[name]


def truncate_longest_first(first: list, second: list, room: int) -> tuple[list, list]:
    """Cut the longer of two lists until both fit into ``room``; if both are long, halve it."""
    short = min(len(first), len(second), room // 2)
    if len(first) > len(second):
        return first[: room - short], second[:short]
    return first[:short], second[: room - short]


class BertTokenizer:
    """Text → ids of word pieces, and back.

    Args:
        vocab: the pieces in the order of their ids.
        lower_case: lower-case and strip accents, as the uncased models want.
        model_max_length: where ``truncation=True`` alone cuts.
    """

    pad_token, unk_token, cls_token, sep_token, mask_token = SPECIAL_TOKENS

    def __init__(
        self,
        vocab: Sequence[str],
        lower_case: bool = True,
        model_max_length: int = MODEL_MAX_LENGTH,
    ):
        self.pieces = list(vocab)
        self.vocab = {piece: i for i, piece in enumerate(self.pieces)}
        self.vocab_size = len(self.pieces)
        self.lower_case = lower_case
        self.model_max_length = model_max_length
        self.remembered: dict[str, list[int]] = {}  # ids of words that were split before
        if missing := [token for token in SPECIAL_TOKENS if token not in self.vocab]:
            raise InputError(f"the vocabulary lacks {', '.join(missing)}; it is not one of a BERT")
        self.all_special_ids = [self.vocab[token] for token in SPECIAL_TOKENS]
        self.pad_token_id, self.unk_token_id, self.cls_token_id = self.all_special_ids[:3]
        self.sep_token_id, self.mask_token_id = self.all_special_ids[3:]

    @classmethod
    def from_pretrained(
        cls, name_or_path: str | None, local_files_only: bool = False, **ignored: Any
    ) -> BertTokenizer:
        """The tokenizer of a model; see find_model. Other keywords are ignored."""
        return cls(*read_vocabulary(find_model(name_or_path, local_files_only)))

    def save_pretrained(self, folder: str | Path, positions: int | None = None) -> None:
        """Write vocab.txt and tokenizer_config.json, which Hugging Face's tokenizer loads too.

        Args:
            positions: how many pieces its model takes, if fewer than this tokenizer's.
        """
        write_whole(Path(folder) / "vocab.txt", "\n".join(self.pieces) + "\n")
        longest = min(self.model_max_length, positions or self.model_max_length)
        settings = {"model_max_length": longest, "do_lower_case": self.lower_case}
        settings |= {"tokenizer_class": "BertTokenizer"}
        write_json(Path(folder) / "tokenizer_config.json", settings)

    def text_to_ids(self, text: str) -> list[int]:
        """Ids of a text, without [CLS] and [SEP]."""
        ids: list[int] = []
        text = _SPLIT_BUT_DELETED.sub("\0", text)  # NUL is deleted as well, but later
        for word in text.split():
            known = self.remembered.get(word)
            ids += self.split_raw_word(word) if known is None else known
        return ids

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
        if len(text) <= MAX_WORD_LENGTH and len(self.remembered) < MAX_REMEMBERED_WORDS:
            self.remembered[text] = ids
        return ids

    def wordpiece(self, word: str) -> list[int]:
        """Greedy longest match first; pieces after the first begin with ## (Wu et al. 2016)."""
        if len(word) > MAX_WORD_LENGTH:
            return [self.unk_token_id]
        ids, rest, prefix = [], word, 0  # prefix: length of the ## in front
        while len(rest) > prefix:
            for end in range(len(rest), prefix, -1):
                if rest[:end] in self.vocab:
                    break
            else:
                return [self.unk_token_id]
            ids.append(self.vocab[rest[:end]])
            rest, prefix = "##" + rest[end:], 2
        return ids

    def tokenize(self, text: str) -> list[str]:
        """The word pieces of a text."""
        return self.convert_ids_to_tokens(self.text_to_ids(text))

    def convert_tokens_to_ids(self, tokens: str | Iterable[str]) -> int | list[int]:
        """Ids of pieces; what is not in the vocabulary becomes [UNK]."""
        if isinstance(tokens, str):
            return self.vocab.get(tokens, self.unk_token_id)
        return [self.vocab.get(token, self.unk_token_id) for token in tokens]

    def convert_ids_to_tokens(self, ids: int | Iterable[int]) -> str | list[str]:
        """Pieces of ids."""
        if isinstance(ids, int):
            return self.pieces[ids]
        return [self.pieces[int(i)] for i in ids]

    def encode_one(self, text: str, pair: str | None, max_length: int | None):
        """(input_ids, token_type_ids) of a text or a pair: [CLS] text [SEP] (pair [SEP])."""
        first = self.text_to_ids(text)
        second = [] if pair is None else self.text_to_ids(pair)
        if max_length is not None:
            room = max_length - (2 if pair is None else 3)
            first, second = truncate_longest_first(first, second, max(0, room))
        first = [self.cls_token_id, *first, self.sep_token_id]
        second = [] if pair is None else [*second, self.sep_token_id]
        return first + second, [0] * len(first) + [1] * len(second)

    def __call__(
        self,
        text: str | Sequence[str],
        text_pair: str | Sequence[str] | None = None,
        padding: bool | str = False,
        truncation: bool = False,
        max_length: int | None = None,
        return_tensors: str | None = None,
    ) -> BatchEncoding:
        """Encode one text or a list of them, or as many pairs.

        Args:
            text, text_pair: strings, or lists of the same length.
            padding: True or 'longest': to the batch's longest; 'max_length': to max_length.
            truncation: whether to cut at max_length, or at 512 if that is not given.
            return_tensors: 'pt' for int64 tensors (B, L), None for lists.
        """
        if text_pair == "":  # as Hugging Face's does; in a list "" is a second text
            text_pair = None
        texts, pairs = ([one] if isinstance(one, str) else one for one in (text, text_pair))
        pairs = [None] * len(texts) if pairs is None else pairs
        target = self.model_max_length if max_length is None else max_length
        limit = target if truncation else None
        encoded = [self.encode_one(*pair, limit) for pair in zip(texts, pairs, strict=True)]
        ids, types = ([row[i] for row in encoded] for i in (0, 1))
        masks = [[1] * len(row) for row in ids]
        if padding:
            length = target if padding == "max_length" else max(map(len, ids), default=0)
            for rows, value in ((ids, self.pad_token_id), (types, 0), (masks, 0)):
                rows[:] = [row + [value] * (length - len(row)) for row in rows]
        batch = {"input_ids": ids, "token_type_ids": types, "attention_mask": masks}
        if return_tensors == "pt":
            import torch

            batch = {key: torch.tensor(rows, dtype=torch.int64) for key, rows in batch.items()}
        elif isinstance(text, str):
            batch = {key: rows[0] for key, rows in batch.items()}
        return BatchEncoding(batch)

    def encode(self, text: str, text_pair: str | None = None, **options: Any) -> Any:
        """The input_ids of a call."""
        return self(text, text_pair, **options)["input_ids"]

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = False) -> str:
        """Text of ids: pieces joined, spaces before punctuation taken out again."""
        kept = [i for i in map(int, ids) if not (skip_special_tokens and i in self.all_special_ids)]
        return self.convert_tokens_to_string(self.convert_ids_to_tokens(kept))

    def batch_decode(self, batch: Iterable[Iterable[int]], **options: Any) -> list[str]:
        """decode, for every row."""
        return [self.decode(ids, **options) for ids in batch]

    def convert_tokens_to_string(self, tokens: Iterable[str]) -> str:
        """Join pieces by spaces; ## glues to the left, and so does punctuation."""
        first, *rest = list(tokens) or [""]
        for piece in rest:
            glued = piece.startswith(("##", *_GLUED))
            first += piece.removeprefix("##") if glued else f" {piece}"
        return first

    def get_vocab(self) -> dict[str, int]:
        """A copy of the vocabulary: piece → id."""
        return dict(self.vocab)

    def __len__(self) -> int:
        return len(self.pieces)
