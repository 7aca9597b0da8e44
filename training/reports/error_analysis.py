"""What a model gets right and wrong: a report, the mistakes, the confusion matrix, calibration.

scikit-learn's display of a confusion matrix is not used: it cannot shade by fraction where it
prints counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy  # scipy.stats loads when it is first used

from training.files.writing import atomic_write, write_whole
from training.reports.figures import as_typed, new_figure
from training.reports.page import Result

if TYPE_CHECKING:
    import pandas as pd


def calibration_error(
    expected: Sequence[float], observed: Sequence[float], bins: int = 10
) -> float:
    """How far confidence and truth lie apart: the expected calibration error.

    ECE = Σ n_b / n · |mean observed − mean expected| over bins of equal width (Guo et al. 2017,
    section 3, equation 3).

    Args:
        expected: confidences from 0 to 1.
        observed: whether each prediction was right, 0 or 1 (or a number between them).
    """
    index = np.minimum(np.multiply(expected, bins).astype(int), bins - 1)
    gaps = np.bincount(index, weights=np.subtract(observed, expected, dtype=float))
    return float(np.abs(gaps).sum() / len(index))


def report_on_classes(y_true: Sequence[int], y_pred: Sequence[int], classes: int) -> str:
    """Precision, recall and F1 of every class as a text table, with those that do not occur."""
    from sklearn.metrics import classification_report  # here, because importing it takes seconds

    return classification_report(y_true, y_pred, labels=range(classes), digits=3, zero_division=0)


def report_on_scores(y_true: Sequence[float], y_pred: Sequence[float]) -> str:
    """Correlations and error of predicted similarities as text."""
    error = np.subtract(y_pred, y_true)
    varied = np.ptp(y_true) > 0 and np.ptp(y_pred) > 0  # else correlations are not defined
    figures = {
        "Pearson correlation": scipy.stats.pearsonr(y_true, y_pred).statistic if varied else 0.0,
        "Spearman correlation": scipy.stats.spearmanr(y_true, y_pred).statistic if varied else 0.0,
        "root mean squared error": np.sqrt(np.mean(error**2)),
        "mean error": np.mean(error),
    }
    lines = [f"{name:<24} {value:7.3f}\n" for name, value in figures.items()]
    return "".join([*lines, f"{'examples':<24} {len(y_true):7d}\n"])


def mistakes_in(
    predictions: Mapping[str, list], dataset: Iterable[tuple], count: int = 50
) -> pd.DataFrame:
    """The most confident mistakes, the worst first.

    Columns: id, gold, predicted, confidence, text (text_1, text_2 for pairs). Similarities have no
    confidence: their largest errors are listed.

    Args:
        predictions: what classify, detect_pairs or score_pairs returned.
        dataset: its rows (text …, label, id).
    """
    import pandas as pd

    keys = {"id": "sent_ids", "gold": "y_true", "predicted": "y_pred"}
    table = pd.DataFrame({column: predictions[key] for column, key in keys.items()})
    if "confidence" in predictions:
        table["confidence"] = predictions["confidence"]
        table = table[table["gold"] != table["predicted"]]
    else:
        table["error"] = (table["predicted"] - table["gold"]).abs()
    table = table.sort_values(table.columns[-1], ascending=False, kind="stable").head(count)
    texts = pd.DataFrame([(row[-1], *row[:-2]) for row in dataset])
    pairs = texts.shape[1] > 2
    texts.columns = ["id", "text_1", "text_2"] if pairs else ["id", "text"]
    return table.merge(texts, on="id", how="left")


def plot_confusion(path: str | Path, result: Result) -> None:
    """A PNG of the confusion matrix: counts, shaded by fraction of the true class."""
    matrix = np.array(result.matrix)
    fractions = matrix / matrix.sum(axis=1, keepdims=True).clip(min=1)
    figure, axes = new_figure(4.6, 4.2)
    axes.imshow(fractions, cmap="Blues", vmin=0, vmax=1)
    for (row, column), count in np.ndenumerate(matrix):
        color = "white" if fractions[row, column] > 0.55 else "black"
        axes.text(column, row, str(count), ha="center", va="center", color=color)
    axes.set(title=result.name, xlabel="predicted class", ylabel="true class")
    axes.set_xticks(range(len(matrix)))
    axes.set_yticks(range(len(matrix)))
    as_typed(figure)
    with atomic_write(path, "wb") as file:
        figure.savefig(file, format="png", dpi=120)


def describe(
    stem: str, predictions: Mapping[str, list], dataset: Iterable[tuple], classes: Sequence[str]
) -> Result:
    """Write what a model does on labelled rows: its report, its mistakes, the confusion matrix.

    Args:
        stem: what the files' names begin with.
        predictions: what classify, detect_pairs or score_pairs returned.
        dataset: its rows.
        classes: their names; none for similarities from 0 to 5.

    Returns:
        the same for the run's page.
    """
    y_true, y_pred = predictions["y_true"], predictions["y_pred"]
    mistakes = mistakes_in(predictions, dataset)
    with atomic_write(f"{stem}-mistakes.tsv") as file:
        mistakes.to_csv(file, sep="\t", index=False, float_format="%.3f", lineterminator="\n")
    error = 0.0
    if classes:
        text = report_on_classes(y_true, y_pred, len(classes))
        error = calibration_error(predictions["confidence"], np.equal(y_true, y_pred))
        for column in ("gold", "predicted"):
            mistakes[column] = [classes[int(label)] for label in mistakes[column]]
    else:
        text = report_on_scores(y_true, y_pred)
    write_whole(f"{stem}-report.txt", text)
    mistakes = mistakes.drop(columns="id")  # which the table of mistakes has
    name = Path(stem).name.removeprefix("multitask-")
    result = Result(name, y_true, y_pred, classes, mistakes, error)
    if classes:
        plot_confusion(f"{stem}-confusion.png", result)
    return result
