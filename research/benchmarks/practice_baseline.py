r"""Is the practice set worth learning on? Fine-tuned BERT beside word counts on its test split.

    for s in 0 1 2; do
      python classifier.py --only sst --data_dir data/practice --option finetune --lr 5e-5 \
        --seed $s --test_out predictions/practice-$s.csv
    done
    python research/benchmarks/practice_baseline.py predictions/practice-?.csv

The baseline is TF-IDF of words and word pairs with logistic regression, its C chosen by
cross-validation on train. Intervals are 95 % bootstraps over the test sentences; the difference is
paired, between the mean over the given files and the baseline. Needs course/gold (staff).
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np
from scipy.stats import bootstrap
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegressionCV
from sklearn.pipeline import make_pipeline

from datasets import load_data
from training.cli.scripts import run_script
from training.files.course_files import PRACTICE_DATA
from training.files.errors import InputError
from training.files.predictions import read_predictions

GOLD = ROOT / "course" / "gold" / "ids-sst-test.csv"


def word_count_baseline() -> object:
    """TF-IDF of words and word pairs, then logistic regression, fitted on practice train."""
    rows, _ = load_data(PRACTICE_DATA / "ids-sst-train.csv", "train")
    model = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2)), LogisticRegressionCV(Cs=10, cv=5, max_iter=5000)
    )
    return model.fit([row[0] for row in rows], [row[1] for row in rows])


def show(name: str, values: np.ndarray) -> None:
    """Print a mean over the test sentences with its 95 % bootstrap interval."""
    interval = bootstrap(
        (values,), np.mean, n_resamples=10_000, method="percentile", rng=0
    ).confidence_interval
    print(f"{name:42s} {values.mean():.3f}   95 % [{interval.low:.3f}, {interval.high:.3f}]")


def main() -> None:
    """Print the baseline, every file of predictions, and the paired difference."""
    files = sys.argv[1:]
    if not files:
        raise InputError(
            "name the prediction files: practice_baseline.py predictions/practice-?.csv"
        )
    gold = load_data(GOLD, "gold")
    labels = np.array([row[1] for row in gold])
    counted = word_count_baseline().predict([row[0] for row in gold]) == labels
    show("TF-IDF and logistic regression", counted.astype(float))
    rights = []
    for file in files:
        predicted = read_predictions(file, "Predicted_Sentiment")
        rights.append(np.array([predicted[row[2]] for row in gold]) == labels)
        show(file, rights[-1].astype(float))
    mean = np.mean(rights, axis=0)
    show(f"mean of the {len(files)} runs", mean)
    show("difference, paired by sentence", mean - counted)


if __name__ == "__main__":
    run_script(main)
