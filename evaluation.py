"""Predictions, metrics, plots, and the one writer and reader of prediction files.

This file does not know how a model was trained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.metrics import accuracy_score, classification_report, confusion_matrix, f1_score
from torch import Tensor
from tqdm import tqdm

from utils import InputError, atomic_write

# ---------------------------------------------------------------------------------------------
# One pass over the data


@torch.no_grad()
def classify(
    batches: Iterable[dict], logits_of: Callable[[Tensor, Tensor], Tensor], device: torch.device
) -> dict[str, list]:
    """Predict the classes of all single sentences.

    Args:
        batches: of token_ids and attention_mask (B, L), sents, sent_ids and, if known, labels.
        logits_of: (ids, mask) → (B, number of classes).

    Returns:
        Lists in the order of the batches: y_pred, y_true (empty without labels), probabilities
        (one list a sentence), sents, sent_ids.
    """
    found: dict[str, list] = {key: [] for key in ("y_pred", "y_true", "probabilities", "sents")}
    found["sent_ids"] = []
    for batch in tqdm(batches, desc="eval", leave=False, disable=None):
        ids, mask = batch["token_ids"].to(device), batch["attention_mask"].to(device)
        logits = logits_of(ids, mask).float()  # (B, number of classes)
        found["y_pred"] += logits.argmax(dim=-1).tolist()
        found["probabilities"] += logits.softmax(dim=-1).tolist()
        found["sents"] += batch["sents"]
        found["sent_ids"] += batch["sent_ids"]
        if "labels" in batch:
            found["y_true"] += batch["labels"].tolist()
    return found


def accuracy_and_f1(y_true: Sequence[int], y_pred: Sequence[int]) -> tuple[float, float]:
    """Accuracy and macro-averaged F1 (a class that never occurs in either counts not at all)."""
    f1 = f1_score(y_true, y_pred, average="macro", zero_division=0)
    return float(accuracy_score(y_true, y_pred)), float(f1)


# ---------------------------------------------------------------------------------------------
# Prediction files

# The three headers of the course, and spellings that older code writes
COLUMNS = ("Predicted_Sentiment", "Predicted_Is_Paraphrase", "Predicted_Similarity")
OLD_SPELLINGS = {"Predicted_Similiary": "Predicted_Similarity"}


def write_predictions(
    path: str | Path, ids: Sequence[str], values: Sequence[float], column: str
) -> None:
    """Write ``id,<column>`` and one row an example, atomically."""
    table = pd.DataFrame({"id": ids, column: values})
    with atomic_write(path) as file:
        table.to_csv(file, index=False, lineterminator="\n")


def read_predictions(path: str | Path, column: str) -> dict[str, float]:
    """Read a file of predictions: {id: value}.

    Also understands what older code writes: a tab in the header, spaces around commas, ``4.0``
    for a class, ``Predicted_Similiary``.

    Raises:
        InputError: listing every fault of the file (header, values, repeated ids) at once.
    """
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError:
        raise InputError(f"{path} is missing") from None
    except (UnicodeDecodeError, OSError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    header = [cell.strip() for cell in lines[0].replace("\t", ",").split(",")] if lines else []
    header = [OLD_SPELLINGS.get(cell, cell) for cell in header if cell]
    faults = []
    if header != ["id", column]:
        faults.append(f"header is {','.join(header)!r}, not 'id,{column}'")
    values: dict[str, float] = {}
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        cells = [cell.strip() for cell in line.replace("\t", ",").split(",")]
        try:
            key, value = cells[0].lower(), float(cells[1])
            strange = "_" in cells[1]  # which float() takes for a separator of thousands
            if len(cells) > 2 or not key or strange or not np.isfinite(value):
                raise ValueError
        except (ValueError, IndexError):
            faults.append(f"line {number}: {line.strip()[:60]!r} is not 'id,number'")
            continue
        if key in values:
            faults.append(f"line {number}: id {key} is there twice")
        values[key] = value
    if faults:
        more = f"; … and {len(faults) - 5} more faults" if len(faults) > 5 else ""
        raise InputError(f"{path}: " + "; ".join(faults[:5]) + more)
    return values


# ---------------------------------------------------------------------------------------------
# Reports and pictures


def write_report(path: str | Path, y_true: Sequence[int], y_pred: Sequence[int]) -> None:
    """Precision, recall and F1 of every class as a text table."""
    with atomic_write(path) as file:
        file.write(classification_report(y_true, y_pred, digits=3, zero_division=0))


def plot_confusion(
    path: str | Path, y_true: Sequence[int], y_pred: Sequence[int], title: str
) -> None:
    """A PNG of the confusion matrix, counts in the cells, shaded by share of the true class."""
    matrix = confusion_matrix(y_true, y_pred)
    shares = matrix / matrix.sum(axis=1, keepdims=True).clip(min=1)
    figure, axes = _figure(4.6, 4.2)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for (row, column), count in np.ndenumerate(matrix):
        color = "white" if shares[row, column] > 0.55 else "black"
        axes.text(column, row, str(count), ha="center", va="center", color=color)
    axes.set(title=title, xlabel="predicted class", ylabel="true class")
    axes.set_xticks(range(len(matrix)))
    axes.set_yticks(range(len(matrix)))
    _save(figure, path)


def plot_curves(path: str | Path, history: Sequence[dict[str, Any]], title: str) -> None:
    """A PNG of loss (left axis) and accuracies (right axis) by epoch."""
    epochs = [row["epoch"] for row in history]
    figure, axes = _figure(6, 3.8)
    axes.plot(epochs, [row["loss"] for row in history], "k:o", ms=3, label="loss")
    axes.set(title=title, xlabel="epoch", ylabel="training loss")
    axes.xaxis.get_major_locator().set_params(integer=True)
    right = axes.twinx()
    right.plot(epochs, [row["train_acc"] for row in history], "C0-o", ms=3, label="train, as seen")
    right.plot(epochs, [row["dev_acc"] for row in history], "C1-o", ms=3, label="dev")
    right.set(ylabel="accuracy", ylim=(0, 1))
    lines = [*axes.get_lines(), *right.get_lines()]
    labels = [line.get_label() for line in lines]
    figure.legend(lines, labels, loc="outside lower center", ncols=3, fontsize=8)
    _save(figure, path)


def _figure(width: float, height: float):
    # matplotlib is imported here because it takes longer than all of this file's work
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def _save(figure: Any, path: str | Path) -> None:
    try:
        with atomic_write(path, "wb") as file:
            figure.savefig(file, format="png", dpi=120)
    except InputError as error:
        print(f"plot: {error}")
