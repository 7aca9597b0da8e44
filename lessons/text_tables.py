"""Tables of texts and classes for numpy_bert.py and quantize.py: read, scored, written, compared.

This file does not need torch, nor any file that does.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from training.files.errors import InputError
from training.files.predictions import read_predictions
from training.files.tables import checked_ids, class_labels, parse_table
from training.files.writing import write_whole

TEXT_COLUMNS = ("text", "sentence")
LABEL_COLUMNS = ("label", "sentiment")


def read_table(path: Path, text: str | None = None, label: str | None = None):
    """(ids, texts, labels or None) of a table with a header, separated by commas or tabs.

    Args:
        text, label: names of the columns; by default the usual ones.
    """
    table = parse_table(path, separator=None)
    columns = {}
    for kind, wanted, usual in (("text", text, TEXT_COLUMNS), ("label", label, LABEL_COLUMNS)):
        if wanted and wanted not in table:
            raise InputError(f"{path} has no column {wanted!r} (it has: {', '.join(table)})")
        columns[kind] = next((name for name in (wanted, *usual) if name in table), None)
    if not columns["text"] or table.empty:
        why = "has no rows" if columns["text"] else "has no column of texts"
        raise InputError(f"{path} {why} (columns: {', '.join(table)}); name it with --column")
    ids = checked_ids(path, table) if "id" in table else table.index.astype(str)
    labels = None
    if columns["label"]:
        table["label"] = table[columns["label"]]
        labels = class_labels(path, table).to_numpy()
    return [*ids], [*table[columns["text"]]], labels


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
    """Write id,Predicted_Sentiment, all of it or nothing."""
    lines = [f"{id_},{label}\n" for id_, label in zip(ids, predicted, strict=True)]
    write_whole(path, "id,Predicted_Sentiment\n" + "".join(lines))
    print(f"wrote {path}")


def compare(path: Path, ids: Sequence[str], predicted: np.ndarray) -> None:
    """Print in how many rows another prediction file agrees, and some ids that differ."""
    fold = len({id_.lower() for id_ in ids}) == len(ids)  # programs that lower-case the ids
    other = read_predictions(path, "Predicted_Sentiment", fold)
    keys = [id_.lower() if fold else id_ for id_ in ids]
    missing = [id_ for id_, key in zip(ids, keys, strict=True) if key not in other]
    if missing:
        raise InputError(
            f"{path} has no prediction for {len(missing)} of the {len(ids)} ids: {missing[0]} …"
        )
    rows = zip(ids, keys, predicted, strict=True)
    differ = [id_ for id_, key, label in rows if other[key] != label]
    print(f"same class as {path}: {len(ids) - len(differ)} of {len(ids)}", *differ[:5])
