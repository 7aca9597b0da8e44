"""The tasks: the course's three, inference between sentences and NER, a row each.

A further task is a row of ``TASKS`` and a head in model.py; its flags follow from the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from datasets import (
    SentenceClassificationDataset,
    SentenceClassificationTestDataset,
    SentencePairDataset,
    SentencePairTestDataset,
    TextDataset,
    load_data,
    load_pairs,
)
from evaluation import (
    COLUMNS,
    accuracy,
    classify,
    detect_pairs,
    overall,
    pearson,
    score_pairs,
)
from extensions.loss.cosine import cosent
from extensions.ner import TAGS, describe_words, entity_f1, read_ner, tag_loss, tag_words
from multitask_classifier import paraphrase_loss, similarity_loss
from training.loop.batches import PAIR, SINGLE
from training.reports.error_analysis import describe

COURSE = ("sst", "para", "sts")  # the tasks of the leaderboard
RANKING = ("ranking", "ranking_symmetric")


@dataclass(frozen=True)
class Task:
    """All that flags, loop, evaluation and files have to know of a task."""

    stem: str  # of its data files: data/{stem}-train.csv
    label: str  # the column of the label in them
    classes: int  # how many; 0 if the label is a number on a scale
    keys: tuple[str, ...]  # what the head takes of a batch, and the labels
    head: str  # which method of the model
    predict: Callable  # a pass over batches, from evaluation.py
    metric: Callable  # (y_true, y_pred) → a number
    column: str  # of its prediction files
    losses: Mapping[str, Callable]  # (outputs, labels) → a number; the first is the default
    extras: tuple[str, ...] = ()  # losses on vectors that can be added
    same: float = 1  # a pair's labels from here on mean "the same"
    different: float = 0  # and up to here "something else"
    describe: Callable = describe  # writes a report on the predictions for dev


def classify_pairs(
    batches: Iterable[dict], logits_of: Callable[..., Tensor], device: torch.device
) -> dict[str, list]:
    """Predict a class for each sentence pair, from logits (B, number of classes).

    The arguments are score_pairs'; the result also holds confidence (of the prediction).
    """
    confidence: list[float] = []

    def best(*pair: Tensor) -> Tensor:
        probabilities = logits_of(*pair).float().softmax(dim=-1)  # (B, C)
        confidence.extend(probabilities.amax(dim=-1).tolist())
        return probabilities.argmax(dim=-1)  # (B,)

    predictions = score_pairs(batches, best, device)
    predictions["y_pred"] = [int(label) for label in predictions["y_pred"]]
    return predictions | {"confidence": confidence}


TASKS = {
    "sst": Task(
        *("ids-sst", "sentiment", 5, SINGLE, "predict_sentiment", classify, accuracy, COLUMNS[0]),
        losses={"cross_entropy": F.cross_entropy},
        extras=("simcse",),
    ),
    "para": Task(
        *("quora", "is_duplicate", 2, PAIR, "predict_paraphrase"),
        *(detect_pairs, accuracy, COLUMNS[1]),
        losses={"binary_cross_entropy": paraphrase_loss},
        extras=(*RANKING, "cosine_embedding", "simcse"),
    ),
    "sts": Task(
        *("sts", "similarity", 0, PAIR, "predict_similarity", score_pairs, pearson, COLUMNS[2]),
        losses={"mse": similarity_loss, "cosent": cosent},
        extras=(*RANKING, "simcse"),
        same=4.0,
        different=-1.0,
    ),
    "nli": Task(
        *("nli", "relation", 3, PAIR, "predict_relation"),
        *(classify_pairs, accuracy, "Predicted_Relation"),
        losses={"cross_entropy": F.cross_entropy},
        extras=(*RANKING, "simcse"),
        same=2,
    ),
    "ner": Task(
        *("ner", "tag", len(TAGS), SINGLE, "predict_tags", tag_words, entity_f1, "Predicted_Tags"),
        losses={"cross_entropy": tag_loss},
        describe=describe_words,
    ),
}
STEMS = {name: task.stem for name, task in TASKS.items()}


def read_set(name: str, args: Any, split: str) -> TextDataset:
    """The rows of args.sst_train, for instance, tokenized; split is 'train', 'dev' or 'test'."""
    task, path = TASKS[name], getattr(args, f"{name}_{split}")
    if name == "ner":
        return read_ner(path, args)
    if task.keys == PAIR:
        rows = load_pairs(path, split, task.label, task.classes)
        if split == "test":
            return SentencePairTestDataset(rows, args)
        return SentencePairDataset(rows, args, isRegression=task.classes == 0)
    rows = load_data(path, "test" if split == "test" else "dev", task.classes)
    if split == "test":
        return SentenceClassificationTestDataset(rows, args)
    return SentenceClassificationDataset(rows, args)


def input_lengths(rows: TextDataset, joins_pairs: bool) -> list[int]:
    """Tokens of each row's input: of a pair the longer text, or both, which share a [CLS]."""
    if joins_pairs and rows.texts_per_row == 2:
        return [min(first + second - 1, rows.max_length) for first, second in rows.pieces()]
    return rows.lengths()


@torch.no_grad()
def evaluate(
    model: nn.Module, loaders: Mapping[str, Iterable], device: torch.device
) -> dict[str, float]:
    """The metric of each task on its dev batches, and the overall score."""
    model.eval()
    scores = {}
    for name, loader in loaders.items():
        task = TASKS[name]
        predictions = task.predict(loader, getattr(model, task.head), device)
        scores[name] = task.metric(predictions["y_true"], predictions["y_pred"])
    return scores | {"overall": overall(scores)}
