"""Features by hand: what can be counted in a text without learning, and tags of its words.

Devlin et al. 2019 need none; before BERT all of them were (e.g. Bär et al. 2012 on STS: overlap,
lengths, numbers). Here they join BERT in two places, both with weights of 0 at first, so that step
0 is BERT exactly and whatever is gained was learnt:

    a tag for each word     LayerNorm(word + position + segment + E[tag]), E = 0
    numbers for each text   vector + W f, W = 0

Tags may be shapes of words (``shape``), parts of speech or names (tagger.py); number 0 is no tag.
A word's pieces all get its tag; [CLS], [SEP] and padding get 0. Words have to be those that the
model sees, but with their case: lower-casing comes after tagging.

To try: shapes alone on SST against a random tag for each word: is the gain, if any, more than that
of a few more parameters? Then overlap alone on STS, without BERT: how far does it go?
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import torch
from torch import Tensor, nn

SHAPES = ("none", "lower", "Title", "UPPER", "mixed", "number", "punctuation", "negation")
NEGATIONS = frozenset("no not never none nobody nothing nor neither nowhere without cannot".split())
TEXT_FEATURES = 8
PAIR_FEATURES = 7


def is_negation(word: str) -> bool:
    """Such as not, never, don't; also n't and 't, as tokenizers leave them."""
    word = word.lower().replace("’", "'")
    return word in NEGATIONS or word.endswith("n't") or word == "'t"


def shape(word: str) -> int:
    """A word's tag by its looks alone: its place in SHAPES."""
    if is_negation(word):
        return SHAPES.index("negation")
    if not any(c.isalnum() for c in word):
        return SHAPES.index("punctuation")
    if any(c.isdigit() for c in word):
        return SHAPES.index("number")
    if word.isupper() and len(word) > 1:
        return SHAPES.index("UPPER")
    if word[:1].isupper() and not any(c.isupper() for c in word[1:]):
        return SHAPES.index("Title")
    return SHAPES.index("mixed" if any(c.isupper() for c in word) else "lower")


def text_features(words: Sequence[str]) -> list[float]:
    """TEXT_FEATURES numbers between 0 and about 2: length, share of each shape but one, marks."""
    count = max(1, len(words))
    shapes = [shape(word) for word in words]
    shares = [shapes.count(SHAPES.index(name)) / count for name in SHAPES[2:7]]
    negations = shapes.count(SHAPES.index("negation"))
    marks = sum(word.count("!") + word.count("?") for word in words)
    return [math.log1p(len(words)) / 3, *shares, min(negations, 3) / 3, min(marks, 3) / 3]


def pair_features(first: Sequence[str], second: Sequence[str]) -> list[float]:
    """PAIR_FEATURES numbers from 0 to 1, the same for both orders of the two texts.

    Overlap of the sets of words and of their neighbours (Jaccard), the share of the smaller set in
    the other, difference of lengths, and whether negations, numbers and first words agree.
    """
    a, b = ([word.lower() for word in words if shape(word) != 6] for words in (first, second))
    pairs_a, pairs_b = (set(pairwise(words)) for words in (a, b))
    numbers_a, numbers_b = ({word for word in words if shape(word) == 5} for words in (a, b))
    common, smaller = len(set(a) & set(b)), min(len(set(a)), len(set(b)))
    return [
        jaccard(set(a), set(b)),
        jaccard(pairs_a, pairs_b),
        common / max(1, smaller),
        abs(len(a) - len(b)) / max(1, len(a), len(b)),
        float(any(map(is_negation, a)) == any(map(is_negation, b))),
        jaccard(numbers_a, numbers_b),
        float(a[:1] == b[:1]),
    ]


def jaccard(first: set, second: set) -> float:
    """|A ∩ B| / |A ∪ B|; 1 for two empty sets."""
    return len(first & second) / len(first | second) if first | second else 1.0


def spread(
    tags: Sequence[int], words: Sequence[str], pieces: Callable[[str], Sequence], max_length: int
) -> list[int]:
    """Tags of words → tags of [CLS] pieces [SEP], cut where a tokenizer cuts the text.

    Args:
        tags: one for each word, from 1 on (0: none).
        pieces: a word's pieces, such as BertTokenizer.text_to_ids of the lower-cased word.
    """
    spread_out = [
        tag for tag, word in zip(tags, words, strict=True) for _ in range(len(pieces(word)))
    ]
    return [0, *spread_out[: max_length - 2], 0]


def pad_tags(rows: Sequence[Sequence[int]], length: int) -> Tensor:
    """Rows of tags → (B, L) int64, filled up with 0."""
    return torch.tensor([[*row, *[0] * (length - len(row))] for row in rows])


class TagEmbedding(nn.Embedding):
    """A vector for each tag, all 0 at first; tag 0 keeps it: (B, L) → (B, L, D)."""

    def __init__(self, tags: int, width: int):
        super().__init__(tags, width, padding_idx=0)
        nn.init.zeros_(self.weight)


class AddFeatures(nn.Module):
    """vector + W f, with W = 0 at first: (B, D), (B, F) → (B, D)."""

    def __init__(self, features: int, width: int):
        super().__init__()
        self.linear = nn.Linear(features, width, bias=False)
        nn.init.zeros_(self.linear.weight)

    def forward(self, vectors: Tensor, features: Tensor) -> Tensor:
        """(B, D), (B, F) → (B, D)."""
        return vectors + self.linear(features)


@contextmanager
def tagged(bert: nn.Module, table: TagEmbedding, *tags: Tensor) -> Iterator[None]:
    """While it is open, BERT's passes add table(tags) to their words' vectors, before LayerNorm.

    Args:
        tags: (B, L), one for each pass to come, in their order: two for a bi-encoder's pair.
    """
    waiting = list(tags)

    def add(embedding: nn.Module, inputs: tuple[Tensor, ...], words: Tensor) -> Tensor:
        if not waiting or waiting[0].shape != inputs[0].shape:
            raise ValueError(f"no tags of shape {tuple(inputs[0].shape)} for this pass of BERT")
        return words + table(waiting.pop(0))  # (B, L, D)

    hook = bert.word_embedding.register_forward_hook(add)
    try:
        yield
    finally:
        hook.remove()
