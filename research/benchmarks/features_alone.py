"""How far features by hand go without BERT: on dev, fitted on train, in a minute.

    python research/benchmarks/features_alone.py --data_dir FOLDER

SST: logistic regression on numbers counted in a text, on TF-IDF of words and word pairs, and on
both. STS: the overlap of words as it is, ridge regression on all numbers counted in a pair, on the
cosine of TF-IDF, and on both. All of the training sets, the regularisation chosen by cross-
validation there; dev is looked at once.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

import numpy as np
from scipy.stats import pearsonr
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from extensions.features.tags import SHAPES, WORD, is_negation, shape
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.cli.task_flags import multitask_files
from training.files.tables import read_table

SPLITS = ("train", "dev")


def text_features(text: str) -> list[float]:
    """Numbers between 0 and about 2: length, fractions of most shapes, negations, ! and ?."""
    words = WORD.findall(text)
    shapes = [SHAPES[shape(word)] for word in words]
    fractions = [shapes.count(name) / max(1, len(words)) for name in SHAPES[2:7]]
    marks = sum(word in "!?" for word in words)
    length, negations = math.log1p(len(words)) / 3, shapes.count("negation")
    return [length, *fractions, min(negations, 3) / 3, min(marks, 3) / 3]


def pair_features(first: str, second: str) -> list[float]:
    """Numbers from 0 to 1: overlap of words, of word pairs, of words in the smaller set, difference
    of lengths, and whether negations, numbers and first words agree.
    """
    texts = [[word for word in WORD.findall(text) if SHAPES[shape(word)] != "punctuation"]
             for text in (first, second)]  # fmt: skip
    numbers = [{word for word in words if SHAPES[shape(word)] == "number"} for words in texts]
    a, b = ([word.lower() for word in words] for words in texts)
    return [
        jaccard(set(a), set(b)),
        jaccard(set(pairwise(a)), set(pairwise(b))),
        len(set(a) & set(b)) / max(1, min(len(set(a)), len(set(b)))),
        abs(len(a) - len(b)) / max(1, len(a), len(b)),
        float(any(map(is_negation, a)) == any(map(is_negation, b))),
        jaccard(*numbers),
        float(a[:1] == b[:1]),
    ]


def jaccard(first: set, second: set) -> float:
    """|A ∩ B| / |A ∪ B|; 1 for two empty sets."""
    return len(first & second) / len(first | second) if first | second else 1.0


def from_rows(feature: Callable) -> FunctionTransformer:
    """A step of a pipeline: rows → an array of their features."""
    return FunctionTransformer(lambda rows: np.array([feature(row) for row in rows]))


def scores_of(task: str, features: Mapping[str, object], model, data: Sequence) -> None:
    """Print a row for each kind of features: the model's score on dev, fitted on train."""
    (rows, labels), (dev_rows, expected) = data
    for name, step in features.items():
        predicted = make_pipeline(step, model).fit(rows, labels).predict(dev_rows)
        show(task, name, predicted, expected)


def show(task: str, name: str, predicted: np.ndarray, expected: np.ndarray) -> None:
    """Print a row: accuracy, or Pearson's r."""
    is_sst = task == "SST"
    score = np.mean(predicted == expected) if is_sst else pearsonr(predicted, expected).statistic
    print(f"| {task} | {name} | {score:.3f} |")


def sentiment(files: dict[str, str]) -> None:
    """The rows of SST."""
    tables = (read_table(files[f"sst_{s}"], ("id", "sentence"), "sentiment") for s in SPLITS)
    data = [(table["sentence"].tolist(), table["label"].astype(int)) for table in tables]
    counts = make_pipeline(from_rows(text_features), StandardScaler())
    tfidf = TfidfVectorizer(ngram_range=(1, 2))
    labels, expected = data[0][1], data[1][1]
    show("SST", "the most frequent class", np.bincount(labels).argmax(), expected)
    model = LogisticRegressionCV(
        Cs=5, cv=3, max_iter=2000, scoring="accuracy", l1_ratios=(0,), use_legacy_attributes=False
    )
    both = make_union(counts, tfidf)
    scores_of("SST", {"counts": counts, "TF-IDF": tfidf, "TF-IDF and counts": both}, model, data)


def similarity(files: dict[str, str]) -> None:
    """The rows of STS."""
    columns = ["sentence1", "sentence2"]
    tables = [read_table(files[f"sts_{s}"], ("id", *columns), "similarity") for s in SPLITS]
    data = [(table[columns].to_numpy().tolist(), table["label"].astype(float)) for table in tables]
    tfidf = TfidfVectorizer().fit(tables[0][columns].melt()["value"])

    def cosine(pairs: Sequence) -> np.ndarray:
        first, second = (tfidf.transform(texts) for texts in zip(*pairs, strict=True))
        return np.asarray(first.multiply(second).sum(axis=1)).reshape(-1, 1)  # rows have length 1

    counts = from_rows(lambda pair: pair_features(*pair))
    overlap = [pair_features(*pair)[0] for pair in data[1][0]]
    show("STS", "overlap of words as it is", overlap, data[1][1])
    cosines = FunctionTransformer(cosine)
    both = make_union(counts, cosines)
    model = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 7)))
    scores_of("STS", {"counts": counts, "TF-IDF": cosines, "TF-IDF and counts": both}, model, data)


def main() -> None:
    """Print the table."""
    parser = OneLineParser(description="Features by hand without BERT.")
    parser.add_argument("--data_dir", help="folder of the data files (default: as the scripts)")
    files = multitask_files(parser.parse_args().data_dir)
    print("| task | features | dev |\n|---|---|--:|")
    sentiment(files)
    similarity(files)


if __name__ == "__main__":
    run_script(main)
