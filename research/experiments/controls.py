r"""The control of each experiment: what its labels teach without any BERT.

    python research/experiments/controls.py research/experiments/books/books-*.toml
    python research/experiments/controls.py research/experiments/books/books-imdb-*.toml \
        --model books

A TOML's control learns from the same files and is scored on the same dev set. Sentences: logistic
regression on TF-IDF of words and pairs of words. Pairs of sentences: the cosine of their TF-IDF.
NER: each word's most frequent tag. The result is the line NAME-control of results.jsonl. Nothing in
it is random, and nothing is chosen on dev. With a model, sentences are cut where that model's
positions end (NAME-control-cut), so that both read the same.
"""

from __future__ import annotations

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

import numpy as np
from scipy.stats import pearsonr
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from datasets import SentenceClassificationTestDataset, load_data, load_pairs
from extensions.entities import OUTSIDE, entity_scores, read_sentences
from research.experiments import results
from research.experiments.results import Experiment
from research.experiments.run import is_done
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.cli.task_flags import multitask_files
from training.files.errors import InputError


def vectorizer() -> TfidfVectorizer:
    """TF-IDF of words and pairs of words; single letters count, since "n't" is one."""
    return TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"\w+", sublinear_tf=True)


def sentences(flags: dict[str, Any]) -> dict[str, float]:
    """Logistic regression on TF-IDF: the accuracy."""
    train, dev = (load_data(results.expanded(flags[split]), "dev") for split in ("train", "dev"))
    read = as_read_by(flags["model"]) if "model" in flags else str
    model = make_pipeline(vectorizer(), LogisticRegression(C=10, max_iter=1000))
    model.fit([read(text) for text, *_ in train], [label for _, label, _ in train])
    return {"dev_acc": float(model.score([read(row[0]) for row in dev], [row[1] for row in dev]))}


def as_read_by(model: str) -> Callable[[str], str]:
    """Make the function that cuts a text where the data sets cut it for this model."""
    rows = SentenceClassificationTestDataset([], SimpleNamespace(model=model))
    return lambda text: rows.tokenizer.decode(rows.encode(text), skip_special_tokens=True)


def pairs(flags: dict[str, Any]) -> dict[str, float]:
    """The cosine of two sentences' TF-IDF, which knows no labels: Pearson's r."""
    files = multitask_files(flags.get("data_dir"))
    train, dev = (
        load_pairs(files[f"sts_{split}"], "dev", "similarity") for split in ("train", "dev")
    )
    model = vectorizer().fit([text for row in train for text in row[:2]])
    first, second = (model.transform([row[i] for row in dev]) for i in (0, 1))  # rows of length 1
    cosines = np.asarray(first.multiply(second).sum(axis=1)).ravel()
    return {"sts": float(pearsonr(cosines, [row[2] for row in dev])[0])}


def ner(flags: dict[str, Any]) -> dict[str, float]:
    """Each word's most frequent tag, O for new words, whatever the case: F1 of entities."""
    train, dev = (
        read_sentences(results.expanded(flags[split]), flags.get("limit"))
        for split in ("train", "dev")
    )
    counts: dict[str, Counter] = defaultdict(Counter)
    for words, tags in train:
        for word, tag in zip(words, tags, strict=True):
            counts[word.lower()][tag] += 1
    best = {word: tags.most_common(1)[0][0] for word, tags in counts.items()}
    predicted = [[best.get(word.lower(), OUTSIDE) for word in words] for words, _ in dev]
    return {"dev_f1": float(entity_scores([tags for _, tags in dev], predicted).loc["all", "f1"])}


CONTROLS: dict[str, Callable[[dict[str, Any]], dict[str, float]]] = {
    "classify": sentences,
    "probe": sentences,
    "train": pairs,
    "tag": ner,
}


def control_of(experiment: Experiment, model: str | None = None) -> Experiment:
    """The control, with those of the experiment's flags that say what is learned from.

    Args:
        model: what cuts the sentences, if they are.
    """
    if experiment.kind not in CONTROLS or experiment.flags.get("tasks", "sts") != "sts":
        raise InputError(f"{experiment.name}: there are controls of sentences, sts and NER only")
    data = ("tasks", "train", "dev", "limit", "data_dir")
    flags = {name: value for name, value in experiment.flags.items() if name in data}
    name = f"{experiment.name}-control"
    if model is not None:
        if CONTROLS[experiment.kind] is not sentences:
            raise InputError(f"{experiment.name}: only controls of sentences take a --model")
        name, flags = f"{name}-cut", flags | {"model": model}
    return replace(experiment, name=name, flags=flags, models=())


def controls_of(experiments: Iterable[Experiment], model: str | None) -> list[Experiment]:
    """The control of each experiment, and of each variant that learns from other data."""
    controls = []
    for experiment in experiments:
        runs = replace(experiment, models=()).with_variants()
        by_flags = {}
        for control in (control_of(run, model) for run in runs):
            by_flags.setdefault(control.digest(), control)
        controls += by_flags.values()
    return controls


def measure(control: Experiment) -> dict[str, Any]:
    """The line of a control."""
    start, code = time.monotonic(), results.commit()
    metrics = results.rounded_scores(CONTROLS[control.kind](control.flags))
    result = {"name": control.name, "seed": None, "flags": control.digest()}
    result |= {"metrics": metrics, "seconds": round(time.monotonic() - start, 1), "data": {}}
    return result | results.origin(code, use_gpu=False)


def main() -> None:
    """Measure each control that is not in results.jsonl yet."""
    parser = OneLineParser(
        prog="research/experiments/controls.py", description="Controls without BERT."
    )
    parser.add_argument("experiments", nargs="+", metavar="TOML")
    parser.add_argument("--model", help="cut sentences where this model does, e.g. books")
    args = parser.parse_args()
    for control in controls_of(map(results.read_experiment, args.experiments), args.model):
        if is_done(control, None):
            print(f"{control.name} is in {results.RESULTS.name} already")
            continue
        result = measure(control)
        results.append_result(result)
        score = ", ".join(f"{name} {value:.3f}" for name, value in result["metrics"].items())
        print(f"{control.name}: {score} ({result['seconds']} s)")


if __name__ == "__main__":
    run_script(main)
