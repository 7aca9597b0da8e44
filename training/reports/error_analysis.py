"""What a model gets right and wrong: reports, mistakes, confusion matrix, calibration.

scikit-learn's displays are not used: its confusion matrix cannot shade by fraction where it prints
counts, and its calibration curve shows neither the bins' sizes nor the error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy  # scipy.stats loads when it is first used

from training.files.writing import atomic_write
from training.reports.figures import new_figure, save_figure
from training.reports.page import Result

if TYPE_CHECKING:
    import pandas as pd


def calibration(
    expected: Sequence[float], observed: Sequence[float], bins: int = 10
) -> tuple[float, pd.DataFrame]:
    """How far confidence and truth lie apart: the expected calibration error, and its bins.

    ECE = Σ n_b / n · |mean observed − mean expected| over bins of equal width (Guo et al. 2017,
    section 3, equation 3).

    Args:
        expected: confidences from 0 to 1.
        observed: whether each prediction was right, 0 or 1 (or a number between them).

    Returns:
        The error, and a row for each bin that is not empty: expected, observed, count.
    """
    import pandas as pd

    table = pd.DataFrame({"expected": expected, "observed": observed}, dtype=float)
    table["bin"] = (table["expected"] * bins).astype(int).clip(0, bins - 1)
    grouped = table.groupby("bin")
    means = grouped.mean().assign(count=grouped.size())
    gaps = (means["observed"] - means["expected"]).abs()
    return float((gaps * means["count"]).sum() / len(table)), means


def write_report(
    path: str | Path, y_true: Sequence[int], y_pred: Sequence[int], classes: int
) -> None:
    """Precision, recall and F1 of every class as a text table, with those that do not occur."""
    from sklearn.metrics import classification_report  # here, because importing it takes seconds

    text = classification_report(y_true, y_pred, labels=range(classes), digits=3, zero_division=0)
    with atomic_write(path) as file:
        file.write(text)


def write_score_report(path: str | Path, y_true: Sequence[float], y_pred: Sequence[float]) -> None:
    """Correlations and error of predicted similarities as text."""
    error = np.subtract(y_pred, y_true)
    varied = np.ptp(y_true) > 0 and np.ptp(y_pred) > 0  # else correlations are not defined
    figures = {
        "Pearson correlation": scipy.stats.pearsonr(y_true, y_pred).statistic if varied else 0.0,
        "Spearman correlation": scipy.stats.spearmanr(y_true, y_pred).statistic if varied else 0.0,
        "root mean squared error": np.sqrt(np.mean(error**2)),
        "mean error": np.mean(error),
    }
    with atomic_write(path) as file:
        file.writelines(f"{name:<24} {value:7.3f}\n" for name, value in figures.items())
        file.write(f"{'examples':<24} {len(y_true):7d}\n")


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


def write_mistakes(path: str | Path, mistakes: pd.DataFrame) -> None:
    """Write the table of mistakes_in, tab-separated."""
    with atomic_write(path) as file:
        mistakes.to_csv(file, sep="\t", index=False, float_format="%.3f", lineterminator="\n")


def plot_confusion(
    path: str | Path, y_true: Sequence[int], y_pred: Sequence[int], classes: int, title: str
) -> None:
    """A PNG of the confusion matrix: counts, shaded by fraction of the true class."""
    from sklearn.metrics import confusion_matrix  # here, because importing it takes seconds

    matrix = confusion_matrix(y_true, y_pred, labels=range(classes))
    fractions = matrix / matrix.sum(axis=1, keepdims=True).clip(min=1)
    figure, axes = new_figure(4.6, 4.2)
    axes.imshow(fractions, cmap="Blues", vmin=0, vmax=1)
    for (row, column), count in np.ndenumerate(matrix):
        color = "white" if fractions[row, column] > 0.55 else "black"
        axes.text(column, row, str(count), ha="center", va="center", color=color)
    axes.set(title=title, xlabel="predicted class", ylabel="true class")
    axes.set_xticks(range(len(matrix)))
    axes.set_yticks(range(len(matrix)))
    save_figure(figure, path)


def plot_calibration(
    path: str | Path, expected: Sequence[float], observed: Sequence[float], title: str
) -> None:
    """A PNG of a reliability diagram with its expected calibration error; see calibration."""
    error, bins = calibration(expected, observed)
    figure, axes = new_figure(4.2, 4.2)
    axes.plot([0, 1], [0, 1], "k:", lw=1)
    sizes = 20 + 380 * bins["count"] / bins["count"].max()
    axes.scatter(bins["expected"], bins["observed"], s=sizes, alpha=0.5)
    axes.plot(bins["expected"], bins["observed"], "C0-", lw=1)
    axes.set(title=f"{title}, ECE {error:.3f}", xlabel="expected", ylabel="observed")
    axes.set(xlim=(0, 1), ylim=(0, 1))
    save_figure(figure, path)


def describe(
    stem: str, predictions: Mapping[str, list], dataset: Iterable[tuple], classes: Sequence[str]
) -> Result:
    """Write what a model does on labelled rows: report, mistakes, confusion matrix, calibration.

    Args:
        stem: what the files' names begin with.
        predictions: what classify, detect_pairs or score_pairs returned.
        dataset: its rows.
        classes: their names; none for similarities from 0 to 5.

    Returns:
        the same for the run's page.
    """
    y_true, y_pred = predictions["y_true"], predictions["y_pred"]
    title = Path(stem).name
    mistakes = mistakes_in(predictions, dataset)
    write_mistakes(f"{stem}-mistakes.tsv", mistakes)
    if classes:
        write_report(f"{stem}-report.txt", y_true, y_pred, len(classes))
        plot_confusion(f"{stem}-confusion.png", y_true, y_pred, len(classes), title)
        expected, observed = predictions["confidence"], np.equal(y_true, y_pred)
        for column in ("gold", "predicted"):
            mistakes[column] = [classes[int(label)] for label in mistakes[column]]
    else:
        write_score_report(f"{stem}-report.txt", y_true, y_pred)
        expected, observed = np.divide(y_pred, 5).clip(0, 1), np.divide(y_true, 5)
    plot_calibration(f"{stem}-calibration.png", expected, observed, title)
    mistakes = mistakes[[*mistakes.columns[1:], "id"]]  # what people read first
    name = title.removeprefix("multitask-")
    return Result(name, y_true, y_pred, classes, mistakes, calibration(expected, observed)[0])
