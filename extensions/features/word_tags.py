"""Tags and counts of the words behind a row of word pieces, with the words' own capitals.

The pieces of an uncased model have no capitals, the plainest sign of a name. So all texts that a
run will see are remembered as they were written, by their pieces: a row of ids finds the text it
came from. A text that was not remembered is put together from its pieces, in lower case.

The features themselves are by_hand.py's and tagger.py's; nothing here is learned.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from extensions.features.by_hand import (
    SHAPES,
    pad_tags,
    pair_features,
    shape,
    spread,
    text_features,
)
from extensions.features.tagger import Tagger
from training.files.errors import InputError

WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")  # don't is one word, a mark is one


class WordTags:
    """The words of rows of pieces, with their tags.

    Args:
        tokenizer: a BertTokenizer.
        tags: 'shapes', or a tagger's file (see load_tagger); None if only counts are wanted.
    """

    def __init__(self, tokenizer: Any, tags: str | None):
        self.tokenizer = tokenizer
        self.written: dict[tuple[int, ...], str] = {}  # pieces → text
        self.known: dict[tuple[int, ...], list[int]] = {}  # pieces → a tag each
        self.tagger = load_tagger(tags) if tags not in (None, "shapes") else None

    @cached_property
    def count(self) -> int:
        """How many tags there are; 0 is none."""
        return len(self.tagger.tags) + 1 if self.tagger else len(SHAPES)

    def remember(self, texts: Iterable[str]) -> None:
        """Take in texts as they were written."""
        for text in texts:
            self.written[tuple(self.tokenizer.text_to_ids(text.lower()))] = text

    def words(self, pieces: Sequence[int]) -> list[str]:
        """The words of a text, given by its pieces."""
        text = self.written.get(tuple(pieces))
        if text is None:
            text = self.tokenizer.decode(pieces)
        return WORD.findall(text)

    def tags(self, ids: Tensor, mask: Tensor) -> Tensor:
        """A tag for each piece: (B, L), (B, L) → (B, L)."""
        rows = []
        for row in _real(ids, mask):
            found = [0]  # of [CLS]
            for pieces in self._texts(row):
                found += [*self._of_pieces(pieces), 0]  # and of [SEP]
            rows.append(found[: len(row)])
        return pad_tags(rows, ids.size(1)).to(ids.device)

    def text_counts(self, ids: Tensor, mask: Tensor) -> Tensor:
        """(B, L), (B, L) → (B, TEXT_FEATURES)."""
        texts = (self._texts(row)[0] for row in _real(ids, mask))
        return torch.tensor([text_features(self.words(pieces)) for pieces in texts])

    def pair_counts(self, ids_1: Tensor, mask_1: Tensor, ids_2: Tensor, mask_2: Tensor) -> Tensor:
        """(B, L1) …, (B, L2) … → (B, PAIR_FEATURES)."""
        pairs = zip(_real(ids_1, mask_1), _real(ids_2, mask_2), strict=True)
        found = (
            [self.words(self._texts(row)[0]) for row in (first, second)] for first, second in pairs
        )
        return torch.tensor([pair_features(*words) for words in found])

    def _texts(self, row: list[int]) -> list[tuple[int, ...]]:
        """The pieces of a row's one or two texts: [CLS] a [SEP] b [SEP] → a, b."""
        texts: list[list[int]] = [[]]
        for piece in row[1:]:
            if piece == self.tokenizer.sep_token_id:
                texts.append([])
            else:
                texts[-1].append(piece)
        return [tuple(text) for text in (texts[:-1] or texts)]

    def _of_pieces(self, pieces: tuple[int, ...]) -> list[int]:
        """A tag for each piece of a text, by its word."""
        if pieces not in self.known:
            words = self.words(pieces)
            found = spread(self._of_words(words), words, self._pieces, len(pieces) + 2)[1:-1]
            # where the words do not give these pieces, what is left has no tag
            self.known[pieces] = (found + [0] * len(pieces))[: len(pieces)]
        return self.known[pieces]

    def _pieces(self, word: str) -> list[int]:
        return self.tokenizer.text_to_ids(word.lower())

    def _of_words(self, words: Sequence[str]) -> list[int]:
        if self.tagger is None:
            return [shape(word) for word in words]
        numbers = {tag: i for i, tag in enumerate(self.tagger.tags, start=1)}
        return [numbers[tag] for tag in self.tagger.tag(words)]


def _real(ids: Tensor, mask: Tensor) -> Iterator[list[int]]:
    """The rows without their padding."""
    for row, length in zip(ids.tolist(), mask.sum(dim=1).tolist(), strict=True):
        yield row[:length]


def load_tagger(path: str | Path) -> Tagger:
    """The tagger in a JSON file {"tags": […], "weights": {feature: {tag: number}}}."""
    try:
        saved = json.loads(Path(path).read_text(encoding="utf-8"))
        return Tagger(saved["tags"], saved["weights"])
    except FileNotFoundError:
        raise InputError(
            f"no file {path}; --tag_words takes 'shapes' or a file of lessons/word_tagger.py"
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} holds no tagger: learn one again") from error
