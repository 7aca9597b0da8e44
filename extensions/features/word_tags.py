"""Tags of the words behind a row of tokens, with the words' own capitals.

The tokens of an uncased model have no capitals, the plainest sign of a name. So all texts that a
run will see are remembered as they were written, by their tokens: a row of ids finds the text it
came from. A text that was not remembered is put together from its tokens, in lower case.

The tags themselves are tags.py's and tagger.py's; nothing here is learned.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from extensions.features.tagger import Tagger
from extensions.features.tags import SHAPES, pad_tags, shape, spread
from training.files.errors import InputError

WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")  # don't is one word, a mark is one


class WordTags:
    """The words of rows of tokens, with their tags.

    Args:
        tokenizer: a BertTokenizer.
        tags: 'shapes', or a tagger's file (see load_tagger).
    """

    def __init__(self, tokenizer: Any, tags: str):
        self.tokenizer = tokenizer
        self.texts: dict[tuple[int, ...], str] = {}  # tokens → text as it was written
        self.cached_tags: dict[tuple[int, ...], list[int]] = {}  # tokens → a tag each
        self.tagger = None if tags == "shapes" else load_tagger(tags)

    @cached_property
    def count(self) -> int:
        """The number of tags, with that of no tag."""
        return len(self.tagger.tags) + 1 if self.tagger else len(SHAPES)

    def remember(self, texts: Iterable[str]) -> None:
        """Take in texts as they were written."""
        for text in texts:
            self.texts[tuple(self.tokenizer.text_to_ids(text.lower()))] = text

    def tags(self, ids: Tensor, mask: Tensor) -> Tensor:
        """A tag for each token: (B, L), (B, L) → (B, L)."""
        rows = []
        for row, length in zip(ids.tolist(), mask.sum(dim=1).tolist(), strict=True):
            tags = [0]  # of [CLS]
            for tokens in self._split(row[:length]):
                tags += [*self._tags_of_text(tokens), 0]  # and of [SEP]
            rows.append(tags[:length])
        return pad_tags(rows, ids.size(1)).to(ids.device)

    def _split(self, row: list[int]) -> list[tuple[int, ...]]:
        """The tokens of a row's one or two texts: [CLS] a [SEP] b [SEP] → a, b."""
        texts: list[list[int]] = [[]]
        for token in row[1:]:
            if token == self.tokenizer.sep_token_id:
                texts.append([])
            else:
                texts[-1].append(token)
        return [tuple(text) for text in (texts[:-1] or texts)]

    def _tags_of_text(self, tokens: tuple[int, ...]) -> list[int]:
        """A tag for each token of a text, by its word."""
        if tokens not in self.cached_tags:
            text = self.texts.get(tokens)
            words = WORD.findall(self.tokenizer.decode(tokens) if text is None else text)
            tags = spread(self.tags_of_words(words), words, self._tokens_of, len(tokens) + 2)[1:-1]
            # where the words do not give these tokens, the rest has no tag
            self.cached_tags[tokens] = (tags + [0] * len(tokens))[: len(tokens)]
        return self.cached_tags[tokens]

    def _tokens_of(self, word: str) -> list[int]:
        return self.tokenizer.text_to_ids(word.lower())

    def tags_of_words(self, words: Sequence[str]) -> list[int]:
        """A tag for each word, by its number."""
        if self.tagger is None:
            return [shape(word) for word in words]
        numbers = {tag: i for i, tag in enumerate(self.tagger.tags, start=1)}
        return [numbers[tag] for tag in self.tagger.tag(words)]


def load_tagger(path: str | Path) -> Tagger:
    """The tagger in a JSON file {"tags": […], "weights": {feature: {tag: number}}}."""
    try:
        saved = json.loads(Path(path).read_text(encoding="utf-8"))
        return Tagger(saved["tags"], saved["weights"])
    except FileNotFoundError:
        raise InputError(
            f"{path} does not exist; --tag_words takes 'shapes' or a file of lessons/word_tagger.py"
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not a tagger: learn one again") from error
