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
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

import numpy as np
import pandas as pd
from scipy.sparse import csr_array, hstack
from scipy.stats import pearsonr
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from extensions.features.tags import SHAPES, is_negation, shape
from extensions.features.word_tags import WORD
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.cli.task_flags import multitask_files
from training.files.tables import read_table


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


def show(task: str, name: str, score: float) -> None:
    """Print a row."""
    print(f"| {task} | {name} | {score:.3f} |")


def sentiment(files: dict[str, str]) -> None:
    """The rows of SST."""
    train, dev = (
        read_table(files[f"sst_{split}"], ("id", "sentence"), "sentiment")
        for split in ("train", "dev")
    )
    labels, expected = (table["label"].astype(int).to_numpy() for table in (train, dev))
    counts = StandardScaler()
    numbers = [[text_features(text) for text in t["sentence"]] for t in (train, dev)]
    numbers = [counts.fit_transform(numbers[0]), counts.transform(numbers[1])]
    tfidf = TfidfVectorizer(ngram_range=(1, 2))
    words = [tfidf.fit_transform(train["sentence"]), tfidf.transform(dev["sentence"])]
    both = [hstack([csr_array(a), b]).tocsr() for a, b in zip(numbers, words, strict=True)]
    show("SST", "the most frequent class", np.mean(expected == np.bincount(labels).argmax()))
    for name, (x, y) in {"counts": numbers, "TF-IDF": words, "TF-IDF and counts": both}.items():
        model = LogisticRegressionCV(
            Cs=5,
            cv=3,
            max_iter=2000,
            scoring="accuracy",
            l1_ratios=(0,),
            use_legacy_attributes=False,
        )
        show("SST", name, model.fit(x, labels).score(y, expected))


def similarity(files: dict[str, str]) -> None:
    """The rows of STS."""
    columns = ("sentence1", "sentence2")
    train, dev = (
        read_table(files[f"sts_{split}"], ("id", *columns), "similarity")
        for split in ("train", "dev")
    )
    labels, expected = (table["label"].astype(float).to_numpy() for table in (train, dev))
    counts = [np.array([*map(pair_features, *(t[c] for c in columns))]) for t in (train, dev)]
    tfidf = TfidfVectorizer().fit(pd.concat([train[column] for column in columns]))
    cosines = [cosine(tfidf, table)[:, None] for table in (train, dev)]
    both = [np.hstack(pair) for pair in zip(counts, cosines, strict=True)]
    overlap = pearsonr(counts[1][:, 0], expected).statistic
    show("STS", "overlap of words as it is", overlap)
    for name, (x, y) in {"counts": counts, "TF-IDF": cosines, "TF-IDF and counts": both}.items():
        model = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 7)))
        show("STS", name, pearsonr(model.fit(x, labels).predict(y), expected).statistic)


def cosine(tfidf: TfidfVectorizer, table: pd.DataFrame) -> np.ndarray:
    """The cosine of the two sentences of every row: (N,)."""
    first, second = (tfidf.transform(table[column]) for column in ("sentence1", "sentence2"))
    return np.asarray(first.multiply(second).sum(axis=1)).ravel()  # rows have length 1


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
