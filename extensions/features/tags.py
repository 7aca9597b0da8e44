"""Tagged features: a vector for each word's tag, next to the vector of its tokens.

Before BERT all features were made by hand (e.g. Bär et al. 2012 on STS). Here one joins BERT's
embeddings, with weights of 0 at first, so that step 0 is BERT exactly and any gain was learned:

    x = LayerNorm(word + position + segment + E[tag]),   E = 0

Tags may be shapes of words (``shape``), parts of speech or entities (tagger.py); number 0 is no
tag. A word's tokens all get its tag; [CLS], [SEP] and padding get 0. The tokens of an uncased model
have no capitals, the plainest sign of a name: so all texts that a run will see are remembered as
they were written, by their tokens, and a row of ids finds the text it came from. In the loop:

    words = WordTags(tokenizer, "shapes")
    words.remember(texts)
    with tagged(model.bert, table, words.tags(ids, mask)):  # table = TagEmbedding(8, 768)
        outputs = model(ids, mask)

To try: shapes alone on SST against a random tag for each word: is the gain, if any, more than that
of a few more parameters?
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from extensions.features.tagger import Tagger
from training.loop.batches import on_host, to_device

SHAPES = ("none", "lower", "Title", "UPPER", "mixed", "number", "punctuation", "negation")
NEGATIONS = frozenset("no not never none nobody nothing nor neither nowhere without cannot".split())
WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")  # don't is one word, a mark is one

# ---------------------------------------------------------------------------------------------
# Tags of words


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


class WordTags:
    """The words of rows of tokens, with their tags.

    Args:
        tokenizer: a BertTokenizer.
        tags: 'shapes', or a tagger's file (see Tagger.load).
    """

    def __init__(self, tokenizer: Any, tags: str):
        self.tokenizer = tokenizer
        self.texts: dict[tuple[int, ...], str] = {}  # tokens → text as it was written
        self.cached_tags: dict[tuple[int, ...], list[int]] = {}  # tokens → a tag each
        self.tagger = None if tags == "shapes" else Tagger.load(tags)
        self.count = len(self.tagger.tags) + 1 if self.tagger else len(SHAPES)  # with "no tag"

    def remember(self, texts: Iterable[str]) -> None:
        """Take in texts as they were written; others are read off their tokens."""
        for text in texts:
            self.texts[tuple(self.tokenizer.text_to_ids(text))] = text

    def tags(self, ids: Tensor, mask: Tensor) -> Tensor:
        """A tag for each token of [CLS] a [SEP] or [CLS] a [SEP] b [SEP]: (B, L) twice → (B, L)."""
        tags = torch.zeros_like(ids, device="cpu")
        rows, lengths = on_host(ids).numpy().tolist(), on_host(mask).numpy().sum(axis=1)
        for row, tokens, length in zip(tags, rows, lengths, strict=True):
            begin = 1
            for i in range(1, length):
                if tokens[i] == self.tokenizer.sep_token_id:
                    row[begin:i] = torch.tensor(self.tags_of_tokens(tuple(tokens[begin:i])))
                    begin = i + 1
        return to_device(tags, ids.device)

    def tags_of_tokens(self, tokens: tuple[int, ...]) -> list[int]:
        """A tag for each token of a text, by its word."""
        if tokens not in self.cached_tags:
            text = self.texts.get(tokens)
            words = WORD.findall(self.tokenizer.decode(tokens) if text is None else text)
            tags = [
                tag
                for tag, word in zip(self.tags_of_words(words), words, strict=True)
                for _ in self.tokenizer.text_to_ids(word)
            ]
            # where the words do not give these tokens, the rest has no tag
            self.cached_tags[tokens] = (tags + [0] * len(tokens))[: len(tokens)]
        return self.cached_tags[tokens]

    def tags_of_words(self, words: Sequence[str]) -> list[int]:
        """A tag for each word, by its number."""
        if self.tagger is None:
            return [shape(word) for word in words]
        return [self.tagger.tags.index(tag) + 1 for tag in self.tagger.tag(words)]


# ---------------------------------------------------------------------------------------------
# Tags joined to BERT


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
