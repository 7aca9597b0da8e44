"""Names in sentences: WikiANN's and WNUT17's files, words' labels on tokens, F1 of entities."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from tokenizer import BertTokenizer
from training.files.errors import InputError
from training.files.texts import read_text

NO_LABEL = -100  # what cross_entropy ignores: [CLS], [SEP], padding, all but a word's first piece
OUTSIDE = "O"
TAG = re.compile(r"O|[BI]-\S[^\t]*")
LANGUAGE = re.compile("[a-z][a-z-]*:")  # WikiANN's tokens begin with that of their language


class Sentence(NamedTuple):
    """Words and their tags, as many."""

    words: list[str]
    tags: list[str]


def read_sentences(path: str | Path, limit: int | None = None) -> list[Sentence]:
    """Read a file of ``word<TAB>tag`` lines; lines of white space (or a BOM) end a sentence.

    WikiANN's prefix of the language (``en:``) is taken off if every word of the file has it.
    """
    sentences = [Sentence([], [])]
    lines = read_text(path).split("\n")  # splitlines() knows odd ends
    for number, line in enumerate(lines, start=1):
        if not line.strip("\ufeff\t \u00a0"):
            if sentences[-1].words:
                sentences.append(Sentence([], []))
            continue
        word, _, tag = line.removeprefix("\ufeff").partition("\t")
        tag = tag.rstrip()
        if not word or not TAG.fullmatch(tag) or not tag.isprintable():
            wanted = "expected a word, a tab and O, B-TYPE or I-TYPE"
            raise InputError(f"{path}, line {number}: {wanted}, not {line[:60]!r}")
        sentences[-1].words.append(word)
        sentences[-1].tags.append(tag)
    sentences = [sentence for sentence in sentences if sentence.words][:limit]
    if not sentences:
        raise InputError(f"{path} holds no sentences; expected word<TAB>tag lines")
    language = LANGUAGE.match(sentences[0].words[0])
    if language and all(w.startswith(language[0]) for one in sentences for w in one.words):
        cut = len(language[0])
        sentences = [Sentence([w[cut:] for w in words], tags) for words, tags in sentences]
    return sentences


def labels_of(sentences: Iterable[Sentence]) -> list[str]:
    """O, then B- and I- of every type that occurs, in alphabetical order."""
    types = sorted({tag[2:] for one in sentences for tag in one.tags if tag != OUTSIDE})
    return [OUTSIDE, *(f"{begin}-{kind}" for kind in types for begin in "BI")]


class TaggedWords:
    """Sentences as tokens; the label of a word is at its first token.

    A word without a token (it was all control characters), or with none within ``length``, has no
    position in the row either, and will be tagged O. A row is its number.
    """

    def __init__(
        self,
        sentences: Sequence[Sentence],
        tokenizer: BertTokenizer,
        labels: Sequence[str],
        length: int,
    ):
        self.pad_id = tokenizer.pad_token_id
        number = {label: i for i, label in enumerate(labels)}
        self.rows: list[tuple[Tensor, Tensor, list[int | None]]] = []  # ids, labels, positions
        self.unseen = 0  # words beyond ``length``
        for words, tags in sentences:
            ids, targets, positions, fits = [tokenizer.cls_token_id], [NO_LABEL], [], True
            for word, tag in zip(words, tags, strict=True):
                tokens = tokenizer.text_to_ids(word)
                fits = fits and len(ids) + len(tokens) < length  # room for [SEP]
                self.unseen += not fits
                positions.append(len(ids) if fits and tokens else None)
                if fits and tokens:
                    ids += tokens
                    targets += [number.get(tag, NO_LABEL)] + [NO_LABEL] * (len(tokens) - 1)
            ids.append(tokenizer.sep_token_id)
            targets.append(NO_LABEL)
            self.rows.append((torch.tensor(ids), torch.tensor(targets), positions))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> int:
        return i

    def lengths(self) -> list[int]:
        """Tokens of every row, [CLS] and [SEP] included."""
        return [len(ids) for ids, _, _ in self.rows]

    def collate_fn(self, numbers: Sequence[int]) -> dict[str, Any]:
        """token_ids, attention_mask and labels, (B, L) each; rows, and positions of their words."""
        ids, targets, positions = zip(*(self.rows[i] for i in numbers), strict=True)
        masks = [torch.ones_like(row) for row in ids]
        return {
            "token_ids": pad_sequence(ids, batch_first=True, padding_value=self.pad_id),
            "attention_mask": pad_sequence(masks, batch_first=True),
            "labels": pad_sequence(targets, batch_first=True, padding_value=NO_LABEL),
            "rows": list(numbers),
            "positions": positions,
        }


def entities(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """(type, first word, last word) of every entity, read as seqeval's default mode reads tags.

    An entity begins at every B-, and at an I- that does not continue one of its type; it goes on
    over the I- of its type that follow.
    """
    spans: list[tuple[str, int, int]] = []
    before = ""  # the type of the word before, '' outside
    for i, tag in enumerate(tags):
        kind = tag[2:]
        if tag != OUTSIDE and (tag[0] == "B" or kind != before):
            spans.append((kind, i, i))
        elif tag != OUTSIDE:
            spans[-1] = (kind, spans[-1][1], i)
        before = kind
    return spans


def entity_scores(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> pd.DataFrame:
    """Precision, recall and F1 of entities: right only if type, first and last word all are.

    Returns:
        A table with a row a type and, last, "all" (the counts of all types together: micro
        average); columns precision, recall, f1, gold (how many there are), predicted. 0 / 0 is 0.
    """
    true, claimed = (
        {(i, *entity) for i, tags in enumerate(rows) for entity in entities(tags)}
        for rows in (gold, predicted)
    )
    found = {"right": true & claimed, "gold": true, "predicted": claimed}
    counts = {name: Counter(entity[1] for entity in kept) for name, kept in found.items()}
    table = pd.DataFrame(counts).fillna(0).astype(int).sort_index()
    table.loc["all"] = table.sum()
    right = table.pop("right")
    scores = {
        "precision": right / table["predicted"].clip(lower=1),
        "recall": right / table["gold"].clip(lower=1),
        "f1": 2 * right / (table["gold"] + table["predicted"]).clip(lower=1),
    }
    return pd.DataFrame(scores).join(table)
