"""What a model gets right and wrong: a report, and its most confident mistakes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import classification_report, confusion_matrix

from training.files.writing import atomic_write, write_whole


def describe(
    stem: str, predictions: Mapping[str, list], dataset: Iterable[tuple], classes: Sequence[str]
) -> dict[str, Any]:
    """Write STEM-report.txt and STEM-mistakes.tsv of a model on labelled rows.

    Args:
        stem: what the files' names begin with.
        predictions: what classify, detect_pairs or score_pairs returned.
        dataset: its rows (text …, label, id).
        classes: their names; none for similarities from 0 to 5.

    Returns:
        what page.html shows of it.
    """
    y_true, y_pred = predictions["y_true"], predictions["y_pred"]
    mistakes = mistakes_in(predictions, dataset)
    with atomic_write(f"{stem}-mistakes.tsv") as file:
        mistakes.to_csv(file, sep="\t", index=False, float_format="%.3f", lineterminator="\n")
    result = {"name": Path(stem).name.removeprefix("multitask-"), "classes": classes}
    if classes:
        options = {"labels": range(len(classes)), "digits": 3, "zero_division": 0}
        report = classification_report(y_true, y_pred, **options)
        table = classification_report(y_true, y_pred, **options, output_dict=True)
        result["by_class"] = [table[str(label)] for label in options["labels"]]
        result["matrix"] = confusion_matrix(y_true, y_pred, labels=options["labels"]).tolist()
        score = f"accuracy {np.equal(y_true, y_pred).mean():.3f}"
        for column in ("gold", "predicted"):
            mistakes[column] = [classes[int(label)] for label in mistakes[column]]
    else:
        report = report_on_scores(y_true, y_pred)
        score = " ".join(report.partition("\n")[0].split())
    write_whole(f"{stem}-report.txt", report)
    # the table of mistakes has the ids
    return result | {"score": score, "rows": len(y_true), "mistakes": mistakes.drop(columns="id")}


def report_on_scores(y_true: Sequence[float], y_pred: Sequence[float]) -> str:
    """Correlations and error of predicted similarities as text."""
    table = pd.DataFrame({"gold": y_true, "predicted": y_pred}, dtype=float)
    errors = table["predicted"] - table["gold"]
    figures = {
        "Pearson correlation": table.corr().iloc[0, 1],
        "Spearman correlation": table.rank().corr().iloc[0, 1],
        "root mean squared error": (errors**2).mean() ** 0.5,
        "mean error": errors.mean(),
    }
    lines = [f"{name:<24} {np.nan_to_num(value):7.3f}\n" for name, value in figures.items()]
    return "".join([*lines, f"{'examples':<24} {len(y_true):7d}\n"])


def mistakes_in(
    predictions: Mapping[str, list], dataset: Iterable[tuple], count: int = 50
) -> pd.DataFrame:
    """The most confident mistakes, the worst first: id, gold, predicted, confidence, text(s).

    Similarities have no confidence: their largest errors are listed.
    """
    keys = {"id": "sent_ids", "gold": "y_true", "predicted": "y_pred"}
    table = pd.DataFrame({column: predictions[key] for column, key in keys.items()})
    if "confidence" in predictions:
        table["confidence"] = predictions["confidence"]
        table = table[table["gold"] != table["predicted"]]
    else:
        table["error"] = (table["predicted"] - table["gold"]).abs()
    table = table.sort_values(table.columns[-1], ascending=False, kind="stable").head(count)
    texts = pd.DataFrame([(row[-1], *row[:-2]) for row in dataset])
    texts.columns = ["id", "text_1", "text_2"] if texts.shape[1] > 2 else ["id", "text"]
    return table.merge(texts, on="id", how="left")
