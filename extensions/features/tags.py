"""Tagged features: a vector for each word's tag, next to the vector of its tokens.

Before BERT all features were made by hand (e.g. Bär et al. 2012 on STS). Here one joins BERT's
embeddings, with weights of 0 at first, so that step 0 is BERT exactly and any gain was learned:

    x = LayerNorm(word + position + segment + E[tag]),   E = 0

Tags may be shapes of words (``shape``), parts of speech or entities (tagger.py); number 0 is no
tag. A word's tokens all get its tag; [CLS], [SEP] and padding get 0. Words have to be those that
the model sees, but with their case: lower-casing comes after tagging. In the loop:

    with tagged(model.bert, table, tags):  # table = TagEmbedding(8, 768), tags (B, L)
        outputs = model(ids, mask)

To try: shapes alone on SST against a random tag for each word: is the gain, if any, more than that
of a few more parameters?
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

SHAPES = ("none", "lower", "Title", "UPPER", "mixed", "number", "punctuation", "negation")
NEGATIONS = frozenset("no not never none nobody nothing nor neither nowhere without cannot".split())


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


def spread(
    tags: Sequence[int], words: Sequence[str], tokens_of: Callable[[str], Sequence], max_length: int
) -> list[int]:
    """Tags of words → tags of [CLS] tokens [SEP], cut where a tokenizer cuts the text.

    Args:
        tags: one for each word, from 1 on (0: none).
        tokens_of: a word's tokens, such as BertTokenizer.text_to_ids of the lower-cased word.
    """
    spread_out = [
        tag for tag, word in zip(tags, words, strict=True) for _ in range(len(tokens_of(word)))
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


@contextmanager
def tagged(bert: nn.Module, table: TagEmbedding, tags: Tensor) -> Iterator[None]:
    """Within it BERT's passes add table(tags) to their tokens' vectors, before the LayerNorm.

    Args:
        tags: (B, L), as the ids of the passes.
    """

    def add(embedding: nn.Module, inputs: tuple[Tensor, ...], words: Tensor) -> Tensor:
        if tags.shape != inputs[0].shape:
            raise ValueError(f"tags of shape {tuple(tags.shape)} for ids {tuple(inputs[0].shape)}")
        return words + table(tags)  # (B, L, D)

    hook = bert.word_embedding.register_forward_hook(add)
    try:
        yield
    finally:
        hook.remove()
