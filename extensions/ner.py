"""NER as a further task: a tag for every word, as MTRec has it next to its news (Bi et al. 2022).

    p(tag | word) = softmax(W h_i + b),  h_i the last hidden state of the word's first token

The loss is its cross-entropy, averaged over the words of a micro-batch. Files are WikiANN's: a
word, a tab and its tag a line, an empty line after a sentence. MTRec adds up the gradients of all
tasks before a step: --gradients sum. In the loop:

    hidden = bert(ids, mask)["last_hidden_state"]  # (B, L, D)
    loss = mean_tag_loss(head(dropout(hidden)), labels)  # (B, L, C), (B, L) with −100: no word
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from config import BertConfig
from extensions.entities import (
    NO_LABEL,
    OUTSIDE,
    TaggedWords,
    entity_scores,
    read_sentences,
    tag_words,
)
from tokenizer import MODEL_MAX_LENGTH, BertTokenizer
from training.cli.flags import TrainingFlags, complete
from training.files.errors import InputError

TAGS = (OUTSIDE, "B-LOC", "I-LOC", "B-ORG", "I-ORG", "B-PER", "I-PER")


def read_ner(path: str, args: Any) -> TaggedWords:
    """The sentences of a file, tokenized for ``args.model``.

    Raises:
        InputError: a tag that is none of TAGS.
    """
    sentences = read_sentences(path)
    for number, (words, tags) in enumerate(sentences, start=1):
        for word, tag in zip(words, tags, strict=True):
            if tag not in TAGS:
                raise InputError(
                    f"{path}, sentence {number}: {word!r} has the tag {tag}; this task knows "
                    f"{', '.join(TAGS)} only: leave other tags out"
                )
    model = complete(args, TrainingFlags).model
    length = min(MODEL_MAX_LENGTH, BertConfig.from_pretrained(model).max_position_embeddings)
    return TaggedWords(sentences, BertTokenizer.from_pretrained(model), TAGS, length)


def tag_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """The cross-entropy, summed over labelled tokens: (B, L, C), (B, L) with −100 → ()."""
    flat = logits.float().flatten(0, 1)  # (B · L, C)
    return F.cross_entropy(flat, labels.flatten(), ignore_index=NO_LABEL, reduction="sum")


def mean_tag_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """The same, averaged over them; 0 without any."""
    return tag_loss(logits, labels) / (labels != NO_LABEL).sum().clamp(min=1)


def predict_tags(
    batches: Iterable[dict], logits_of: Callable[[Tensor, Tensor], Tensor], device: torch.device
) -> dict[str, list]:
    """The result of tag_words, a sentence's tags with spaces between: a cell of a file."""
    predictions = tag_words(batches, logits_of, TAGS, device)
    return predictions | {key: [*map(" ".join, predictions[key])] for key in ("y_true", "y_pred")}


def entity_f1(y_true: Sequence[str], y_pred: Sequence[str]) -> float:
    """F1 of entities, correct if type, first and last word are; tags with spaces between."""
    gold, predicted = ([tags.split() for tags in rows] for rows in (y_true, y_pred))
    return float(entity_scores(gold, predicted).loc["all", "f1"])
