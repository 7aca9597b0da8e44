"""BERT's tokenizer by hand: texts and pairs → batches of ids, and back.

It gives what Hugging Face's bert-base-uncased tokenizer gives. How a text falls into word pieces is
training/wordpieces.py's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from training.files.hub import find_model
from training.files.writing import atomic_write, write_json
from training.wordpieces import SPECIAL_TOKENS, WordPieces, read_vocabulary

MODEL_MAX_LENGTH = 512  # what ``truncation=True`` alone cuts at
_GLUED = (".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re")  # decoded without a space before


class BatchEncoding(dict):
    """input_ids, token_type_ids and attention_mask, to be read as keys or as attributes."""

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise AttributeError(name)
        return self[name]

    def to(self, device: torch.device | str) -> BatchEncoding:
        """The same batch with its tensors on ``device``."""
        return BatchEncoding({key: tensor.to(device) for key, tensor in self.items()})


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
    """

    pad_token, unk_token, cls_token, sep_token, mask_token = SPECIAL_TOKENS
    model_max_length = MODEL_MAX_LENGTH

    def __init__(self, vocab: Sequence[str], lower_case: bool = True):
        self.lower_case = lower_case
        self.remembered = WordPieces(vocab, lower_case)
        self.pieces = self.remembered.pieces
        self.vocab = self.remembered.vocab  # piece → id
        self.vocab_size = len(self.pieces)
        self.all_special_ids = ids = [self.vocab[token] for token in SPECIAL_TOKENS]
        self.pad_token_id, self.unk_token_id, self.cls_token_id, self.sep_token_id = ids[:4]
        self.mask_token_id = ids[4]

    @classmethod
    def from_pretrained(
        cls, name_or_path: str | None, local_files_only: bool = False, **ignored: Any
    ) -> BertTokenizer:
        """The tokenizer of a model that find_model finds; other keywords are ignored."""
        return cls(*read_vocabulary(find_model(name_or_path, local_files_only)))

    def save_pretrained(self, folder: str | Path, positions: int | None = None) -> None:
        """Write vocab.txt and tokenizer_config.json, which Hugging Face's tokenizer loads too.

        Args:
            positions: how many pieces its model takes, if fewer than this tokenizer's.
        """
        with atomic_write(Path(folder) / "vocab.txt") as file:
            file.write("\n".join(self.pieces) + "\n")
        longest = min(self.model_max_length, positions or self.model_max_length)
        settings = {"do_lower_case": self.lower_case, "model_max_length": longest}
        settings["tokenizer_class"] = "BertTokenizer"
        write_json(Path(folder) / "tokenizer_config.json", settings)

    def text_to_ids(self, text: str) -> list[int]:
        """Ids of a text, without [CLS] and [SEP]."""
        if not isinstance(text, str):
            raise ValueError(f"a text must be a string, not {text!r}; pairs go into two lists")
        return self.remembered.text_to_ids(text)

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

    def encode_one(self, text: str, pair: str | None, max_length: int | None, special: bool):
        """(input_ids, token_type_ids) of a text or a pair: [CLS] text [SEP] (pair [SEP])."""
        first = self.text_to_ids(text)
        second = [] if pair is None else self.text_to_ids(pair)
        if max_length is not None:
            room = max_length - special * (2 if pair is None else 3)
            if room < 0:
                raise ValueError(f"max_length {max_length} leaves no room for [CLS] and [SEP]")
            first, second = truncate_longest_first(first, second, room)
        if special:
            first = [self.cls_token_id, *first, self.sep_token_id]
            second = [] if pair is None else [*second, self.sep_token_id]
        return first + second, [0] * len(first) + [1] * len(second)

    def __call__(
        self,
        text: str | Sequence[str],
        text_pair: str | Sequence[str] | None = None,
        padding: bool | str = False,
        truncation: bool | str | None = None,
        max_length: int | None = None,
        return_tensors: str | None = None,
        add_special_tokens: bool = True,
    ) -> BatchEncoding:
        """Encode one text or a list of them, or as many pairs.

        Args:
            text, text_pair: strings, or lists of the same length.
            padding: True or 'longest': to the longest of the batch; 'max_length': to max_length.
            truncation: True or 'longest_first': to max_length, or to 512 if that is not given.
                Left out, a max_length without padding truncates too, as in Hugging Face's.
            return_tensors: 'pt' for int64 tensors (B, L), None for lists.

        Raises:
            ValueError: something that is no string, lists of different lengths, unknown options,
                or tensors asked for rows of different lengths without padding.
        """
        for name, value, allowed in (
            ("padding", padding, (True, False, "longest", "max_length", "do_not_pad")),
            ("truncation", truncation, (None, True, False, "longest_first", "do_not_truncate")),
            ("return_tensors", return_tensors, (None, "pt")),
        ):
            if value not in allowed:
                raise ValueError(f"{name} {value!r} is not one of {allowed}")
        if isinstance(text_pair, str):
            text_pair = text_pair or None  # as Hugging Face's does; in a list "" is a second text
        texts, pairs = ([one] if isinstance(one, str) else one for one in (text, text_pair))
        pairs = [None] * len(texts) if pairs is None else pairs
        if len(texts) != len(pairs):
            raise ValueError(f"{len(texts)} texts but {len(pairs)} second texts")
        padded = padding not in (False, "do_not_pad")
        implied = truncation is None and max_length is not None and not padded
        target = self.model_max_length if max_length is None else max_length
        limit = target if implied or truncation in (True, "longest_first") else None
        examples = zip(texts, pairs, strict=True)
        encoded = [self.encode_one(*example, limit, add_special_tokens) for example in examples]
        ids, types = [one for one, _ in encoded], [other for _, other in encoded]
        masks = [[1] * len(one) for one in ids]
        if padded:
            length = target if padding == "max_length" else max(map(len, ids), default=0)
            for rows, value in ((ids, self.pad_token_id), (types, 0), (masks, 0)):
                rows[:] = [row + [value] * (length - len(row)) for row in rows]
        batch = {"input_ids": ids, "token_type_ids": types, "attention_mask": masks}
        if return_tensors == "pt":
            if len(set(map(len, ids))) > 1:
                raise ValueError("rows of different lengths make no tensor; use padding=True")
            # by way of NumPy, which reads lists several times faster than torch.tensor
            batch = {key: torch.from_numpy(np.array(rows, np.int64)) for key, rows in batch.items()}
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
