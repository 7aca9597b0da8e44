"""Predictions, metrics, and the one writer of prediction files."""

from __future__ import annotations

import csv
import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy  # scipy.stats loads when it is first used
import torch
from torch import Tensor

from training.files.course_files import trained_names
from training.files.errors import InputError
from training.files.writing import atomic_write
from training.loop.batches import SINGLE, to_device
from training.loop.progress import progress_bar

# The three headers of prediction files
COLUMNS = ("Predicted_Sentiment", "Predicted_Is_Paraphrase", "Predicted_Similarity")


def __getattr__(name: str) -> Any:
    """What older scripts of part 2 import from this file."""
    if name.startswith(("model_eval_", "test_")):
        return getattr(importlib.import_module("multitask_evaluation"), name)
    raise AttributeError(f"module 'evaluation' has no attribute {name!r}")


@torch.no_grad()
def outputs_of(
    function: Callable[..., Tensor], batches: Iterable[dict], keys: Sequence[str], device
) -> tuple[Tensor, dict[str, list]]:
    """What a function returns for a batch's tensors with these keys, the labels aside; for all.

    Also lists in the order of the batches: y_true (empty without labels), sents, sent_ids.
    """
    outputs: list[Tensor] = []  # read at the end: reading waits for a GPU
    rows: dict[str, list] = {"y_true": [], "sents": [], "sent_ids": []}
    for batch in progress_bar(batches, "eval"):
        outputs.append(function(*(to_device(batch[key], device) for key in keys[:-1])).float())
        rows["y_true"] += batch["labels"].tolist() if "labels" in batch else []
        rows["sents"] += batch.get("sents", [])
        rows["sent_ids"] += batch["sent_ids"]
    return torch.cat(outputs).cpu(), rows


def classify(
    batches: Iterable[dict], logits_of: Callable[[Tensor, Tensor], Tensor], device: torch.device
) -> dict[str, list]:
    """Predict the classes of all single sentences.

    Args:
        logits_of: ids and mask, (B, L) each → (B, number of classes).

    Returns:
        Lists in the order of the batches: y_pred, y_true (empty without labels), probabilities
        (one list per sentence), sents, sent_ids.
    """
    logits, rows = outputs_of(logits_of, batches, SINGLE, device)  # (N, number of classes)
    probabilities = logits.softmax(dim=-1).tolist()
    return rows | {"y_pred": logits.argmax(dim=-1).tolist(), "probabilities": probabilities}


def say_classes(logits: Tensor, config: Any = None) -> str:
    """The class of one text and the probabilities of all, by the model's names; logits (1, C)."""
    probabilities = logits.float().softmax(dim=-1).squeeze(0).tolist()
    best, names = int(logits.argmax()), trained_names(config, len(probabilities))
    listed = "  ".join(f"{name}: {p:.3f}" for name, p in zip(names, probabilities, strict=True))
    return f"class {best}{'' if names[best] == str(best) else f', {names[best]}'}   [{listed}]"


def metrics_of(predictions: Mapping[str, list]) -> tuple:
    """The result of classify → (accuracy, macro F1, y_pred, y_true, sents, sent_ids).

    A class that neither the labels nor the predictions have does not count for F1.
    """
    from sklearn.metrics import f1_score  # here, because importing it takes two seconds

    y_pred, y_true = predictions["y_pred"], predictions["y_true"]
    f1 = float(f1_score(y_true, y_pred, average="macro", zero_division=0))
    rest = (predictions["sents"], predictions["sent_ids"])
    return accuracy(y_true, y_pred), f1, y_pred, y_true, *rest


def accuracy(y_true: Sequence[int], y_pred: Sequence[int]) -> float:
    """The fraction of predictions that are correct."""
    return float(np.equal(y_true, y_pred).mean())


def pearson(y_true: Sequence[float], y_pred: Sequence[float]) -> float:
    """Pearson's correlation; 0, with a warning, where it is not defined: without any variation."""
    if not np.isfinite(y_pred).all():
        raise InputError("a predicted similarity is nan or infinite; train again with a lower --lr")
    for values, what in ((y_pred, "predicted"), (y_true, "true")):
        if len(values) < 2 or np.ptp(values) == 0:
            print(f"warning: the {what} similarities do not vary: Pearson's correlation set to 0")
            return 0.0
    return float(scipy.stats.pearsonr(y_true, y_pred).statistic)


def write_predictions(
    path: str | Path, ids: Sequence[str], values: Sequence[float], column: str
) -> None:
    """Write ``id,<column>`` and one row an example; training/files/predictions.py reads it."""
    with atomic_write(path) as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("id", column))
        table.writerows(zip(ids, values, strict=True))


def write_in_order(
    path: str | Path, dataset: Iterable[tuple], predictions: Mapping[str, list], column: str
) -> None:
    """Write predictions in the order of the data set's rows, not of the batches, and say where."""
    predicted = dict(zip(predictions["sent_ids"], predictions["y_pred"], strict=True))
    ids = [row[-1] for row in dataset]
    write_predictions(path, ids, [predicted[key] for key in ids], column)
    print(f"wrote {path}")
