"""NER as a further task: a tag for every word, as MTRec has it next to its news (Bi et al. 2022).

    p(tag | word) = softmax(W h_i + b),  h_i the last hidden state of the word's first token

The loss is its cross-entropy, averaged over the words of a micro-batch. Files are WikiANN's: a
word, a tab and its tag a line, an empty line after a sentence. MTRec adds up the gradients of all
tasks before a step: --gradients sum. In the loop:

    hidden = bert(ids, mask)["last_hidden_state"]  # (B, L, D)
    loss = tag_loss(head(dropout(hidden)), labels)  # (B, L, C), (B, L) with −100 where no word is
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
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
    likeliest_tags,
    read_sentences,
)
from tokenizer import MODEL_MAX_LENGTH, BertTokenizer
from training.cli.flags import TrainingFlags, complete
from training.files.errors import InputError
from training.loop.progress import progress_bar
from training.reports.error_analysis import describe
from training.reports.page import Result

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
    """The mean cross-entropy of all labelled tokens: (B, L, C), (B, L) with −100 → ()."""
    total = F.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=NO_LABEL, reduction="sum"
    )
    return total / (labels != NO_LABEL).sum().clamp(min=1)


@torch.no_grad()
def tag_words(
    batches: Iterable[dict], logits_of: Callable[[Tensor, Tensor], Tensor], device: torch.device
) -> dict[str, list]:
    """Predict the tags of all sentences' words.

    Args:
        batches: of TaggedWords.
        logits_of: (ids, mask) → (B, L, number of tags).

    Returns:
        Lists in the order of the batches: y_pred and y_true, a sentence's tags with spaces
        between; confidence, a number a word; sent_ids.
    """
    predictions: dict[str, list] = {"y_pred": [], "y_true": [], "confidence": [], "sent_ids": []}
    for batch in progress_bar(batches, "eval"):
        ids, mask = batch["token_ids"].to(device), batch["attention_mask"].to(device)
        for tags, probabilities in likeliest_tags(logits_of(ids, mask), batch["places"], TAGS):
            predictions["y_pred"].append(" ".join(tags))
            predictions["confidence"].append(probabilities)
        predictions["y_true"] += map(" ".join, batch["tags"])
        predictions["sent_ids"] += batch["sent_ids"]
    return predictions


def entity_f1(y_true: Sequence[str], y_pred: Sequence[str]) -> float:
    """F1 of entities, correct if type, first and last word are; tags with spaces between."""
    gold, predicted = ([tags.split() for tags in rows] for rows in (y_true, y_pred))
    return float(entity_scores(gold, predicted).loc["all", "f1"])


def describe_words(
    stem: str, predictions: Mapping[str, list], dataset: TaggedWords, classes: Sequence[str]
) -> Result:
    """What error_analysis.describe writes, of words: each is a row, its text the sentence."""
    gold, predicted = (
        [TAGS.index(tag) for tags in predictions[key] for tag in tags.split()]
        for key in ("y_true", "y_pred")
    )
    rows = [
        (f"{word} · {dataset[i][0]}", 0, f"{i}.{place}")
        for i in predictions["sent_ids"]
        for place, word in enumerate(dataset.sentences[i].words, start=1)
    ]
    words = {"y_true": gold, "y_pred": predicted, "sent_ids": [row[-1] for row in rows]}
    words["confidence"] = list(chain(*predictions["confidence"]))
    return describe(stem, words, rows, TAGS)
