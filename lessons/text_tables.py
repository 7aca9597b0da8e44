"""Tables of texts and classes: read, scored and written, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from training.files.errors import InputError
from training.files.tables import checked_ids, class_labels, parse_table
from training.files.writing import write_whole


def read_table(path: Path) -> tuple[list[str], list[str], np.ndarray | None]:
    """Read ids, texts and labels from a table separated by commas or tabs.

    Texts are in the column text or sentence, labels, if any, in label or sentiment.
    """
    table = parse_table(path, separator=None)
    text, label = (
        next((name for name in names if name in table), None)
        for names in (("text", "sentence"), ("label", "sentiment"))
    )
    if text is None or table.empty:
        what = "has no rows" if text else "has no column text or sentence"
        raise InputError(f"{path} {what} (it has: {', '.join(table)}); rename one")
    ids = checked_ids(path, table) if "id" in table else table.index.astype(str)
    labels = None
    if label:
        labels = class_labels(path, table.assign(label=table[label])).to_numpy()
    return [*ids], [*table[text]], labels


def report(labels: np.ndarray, predicted: np.ndarray) -> float:
    """Print accuracy, confusion matrix and, of two classes, precision, recall and F1 of class 1."""
    count = int(max(labels.max(), predicted.max())) + 1
    confusion = np.zeros((count, count), int)
    np.add.at(confusion, (labels, predicted), 1)  # rows: true class, columns: predicted
    accuracy = float((labels == predicted).mean())
    line = f"accuracy {accuracy:.5f} ({confusion.trace()} of {len(labels)})"
    if count == 2:
        correct, claimed, true = confusion[1, 1], confusion[:, 1].sum(), confusion[1].sum()
        precision, recall = correct / max(1, claimed), correct / max(1, true)
        f1 = 2 * correct / max(1, claimed + true)
        line += f"  precision {precision:.4f}  recall {recall:.4f}  F1 {f1:.4f}"
    print(line)
    print("confusion (rows: true class):", confusion.tolist())
    return accuracy


def write(path: Path, ids: Sequence[str], predicted: np.ndarray) -> None:
    """Write the predictions as id,Predicted_Sentiment."""
    lines = [f"{id_},{label}\n" for id_, label in zip(ids, predicted, strict=True)]
    write_whole(path, "id,Predicted_Sentiment\n" + "".join(lines))
    print(f"wrote {path}")
