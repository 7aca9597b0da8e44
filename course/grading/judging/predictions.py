"""Predictions against the labels that staff hold: metrics, intervals, a public and a private half.

The metrics come from the students' ids and values alone; whatever bytes a file has, the outcome is
a value or a list of faults. It does not know points, students' code or earlier submissions.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from checks.part2 import submission as part_2
from course.grading.judging.types import Submission
from course.grading.pages.output import clean
from datasets import load_data, load_pairs
from evaluation import accuracy_and_f1
from prepare_submit import PART_1_FILES
from training.files.errors import InputError
from training.files.predictions import parse_predictions

RESAMPLES = 1000
AT_ONCE = 1_000_000  # numbers in memory
ODD = 0.1  # of the standard deviation: by so much may predictions for one text differ
SPLITS = ("dev", "test")
# Stem of the labelled file, column of predictions, column of labels, number of classes
SETS = {
    "sst": ("ids-sst", *part_2.COLUMNS["sst"]),
    "cfimdb": ("ids-cfimdb", "Predicted_Sentiment", "sentiment", 2),
    "para": ("quora", *part_2.COLUMNS["para"]),
    "sts": ("sts", *part_2.COLUMNS["sts"]),
}
# A row is about 30 bytes; a file that is many times as long is not looked at
BYTES_A_ROW, LINES_A_ROW, SPARE = 100, 4, 10_000
BREAKS = (b"\n", b"\r", b"\v", b"\f", b"\x1c", b"\x1d", b"\x1e", b"\xc2\x85", b"\xe2\x80")


@dataclass(frozen=True)
class Gold:
    """The labels of one data file."""

    file: str
    data: str  # a key of SETS
    split: str
    column: str  # of predictions
    classes: int | None  # None: similarities
    ids: tuple[str, ...]
    labels: np.ndarray  # (N,)
    public: np.ndarray  # (N,) bool: which rows the public half holds
    twins: tuple[tuple[int, ...], ...] = ()  # rows with the same text


@dataclass(frozen=True)
class Wanted:
    """One file of predictions of a submission."""

    path: str
    data: str
    split: str
    option: str = ""  # pretrain or finetune, in part 1
    required: bool = True


def wanted_files(part: int) -> list[Wanted]:
    """The prediction files of a part, those that may be missing included."""
    if part == 2:
        return [Wanted(path, *kind) for path, kind in part_2.FILES.items()]
    return [
        Wanted(path, data, split, Path(path).name.split("-")[0], required=data == "sst")
        for path, (data, split, _) in PART_1_FILES.items()
    ]


# ---------------------------------------------------------------------------------------------
# Labels


def load_gold(*folders: Path, secret: str) -> dict[tuple[str, str], Gold]:
    """The labelled files in some folders by (data, split); of the same name, the first one's.

    Args:
        folders: which hold any of ids-sst-dev.csv, ids-sst-test.csv, … sts-test.csv.
        secret: the assignment's, which divides public from private rows.

    Raises:
        InputError: none of the files is there, one has no labels, or the secret is empty.
    """
    if not secret:
        raise InputError("the assignment's secret is empty: anybody could compute the halves")
    gold = {}
    for data, (stem, column, label, classes) in SETS.items():
        for split in SPLITS:
            name = f"{stem}-{split}.csv"
            path = next((f / name for f in folders if (f / name).is_file()), None)
            if path is None:
                continue
            rows = _labelled_rows(path, label, classes)
            ids = tuple(row[-1] for row in rows)
            labels = np.array([row[-2] for row in rows])
            public = np.array([is_public(key, secret) for key in ids])
            same = twins([row[:-2] for row in rows])
            gold[data, split] = Gold(name, data, split, column, classes, ids, labels, public, same)
    if not gold:
        listed = ", ".join(map(str, folders))
        raise InputError(f"no labelled file (ids-sst-test.csv, …) in {listed}; name its folder")
    return gold


def _labelled_rows(path: Path, label: str, classes: int | None) -> list[tuple]:
    # a labelled test file is read as a dev file: rows (text …, label, id)
    if label == "sentiment":
        return load_data(path, "dev", classes)
    return load_pairs(path, "dev", label)


def twins(texts: Iterable[tuple]) -> tuple[tuple[int, ...], ...]:
    """The numbers of the rows that have the same text as others."""
    found = defaultdict(list)
    for number, text in enumerate(texts):
        found[text].append(number)
    return tuple(tuple(numbers) for numbers in found.values() if len(numbers) > 1)


def is_public(key: str, secret: str) -> bool:
    """Whether an id belongs to the public half; who lacks the secret cannot tell."""
    digest = hashlib.blake2b(key.encode(), key=_key(secret), digest_size=8)
    return bool(digest.digest()[0] & 1)


@cache
def _key(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


# ---------------------------------------------------------------------------------------------
# One submission


def score(submission: Submission, gold: Mapping[tuple[str, str], Gold]) -> list[dict[str, Any]]:
    """An entry a file: see score_file. Files that may be missing and are make none."""
    entries = []
    for wanted in wanted_files(submission.part):
        content = submission.files.get(wanted.path)
        if content is not None or wanted.required:
            entries.append(score_file(wanted, content, gold.get((wanted.data, wanted.split))))
    return entries


def score_file(wanted: Wanted, content: bytes | None, gold: Gold | None) -> dict[str, Any]:
    """What one file is worth.

    Returns:
        file, data, split, option, metric, rows; value, f1 (of classes), low, high, public,
        public_low, public_high, private: numbers, or None where there are faults or no labels;
        faults, and a note where it is not scored; sha256 of the file; odd: see there; of test data
        predicted, for the leaderboard's bootstrap.
    """
    entry: dict[str, Any] = {
        "file": wanted.path,
        "data": wanted.data,
        "split": wanted.split,
        "option": wanted.option,
        "metric": "Pearson" if SETS[wanted.data][3] is None else "accuracy",
        "rows": len(gold.ids) if gold else 0,
    }
    numbers = ("value", "f1", "low", "high", "public", "public_low", "public_high", "private")
    entry |= dict.fromkeys(numbers) | {"faults": [], "note": ""}
    entry["sha256"] = hashlib.sha256(content).hexdigest() if content is not None else ""
    if content is None:
        entry["faults"] = [f"{wanted.path} is missing"]
    elif gold is None:
        entry["note"] = f"not scored: no labelled {SETS[wanted.data][0]}-{wanted.split}.csv here"
    else:
        try:
            predicted = read(wanted.path, content, gold)
        except InputError as error:
            entry["faults"] = [clean(error, 1000)]
        else:
            entry |= measure(predicted, content, gold)
            entry |= {"odd": odd(predicted, gold)}
            if gold.split == "test":
                entry["predicted"] = packed(predicted, gold)
    return entry


def read(path: str, content: bytes, gold: Gold) -> np.ndarray:
    """The predictions in the order of the labels; InputError lists the file's faults."""
    rows = len(gold.ids)
    lines = sum(map(content.count, BREAKS))
    if len(content) > BYTES_A_ROW * rows + SPARE or lines > LINES_A_ROW * rows + SPARE:
        raise InputError(f"{path} is too long: {len(content)} bytes for {rows} predictions")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is no UTF-8: {error.reason} at byte {error.start}") from None
    predicted = parse_predictions(text, gold.column, path)
    faults = []
    for what, keys in (
        ("lacks", set(gold.ids) - predicted.keys()),
        ("has unknown", predicted.keys() - set(gold.ids)),
    ):
        if keys:
            faults.append(f"it {what} {len(keys)} ids of {gold.file}: {_some(keys)}")
    if gold.classes:
        wrong = [key for key, value in predicted.items() if value not in range(gold.classes)]
        if wrong:
            listed = _some(f"{key}={predicted[key]:g}" for key in wrong)
            faults.append(
                f"it has {len(wrong)} values that are not classes 0 to {gold.classes - 1}: {listed}"
            )
    if faults:
        raise InputError(f"{path}: " + "; ".join(faults))
    return np.array([predicted[key] for key in gold.ids])


def _some(items: Iterable[str]) -> str:
    items = sorted(item[:60] for item in items)
    return ", ".join(items[:3]) + (" …" if len(items) > 3 else "")


def odd(predicted: np.ndarray, gold: Gold) -> list[str]:
    """What no checkpoint gives: other answers to the same text, similarities all round."""
    found, values = [], _in_units_of_the_largest(predicted[None].astype(float))[0]
    apart = ODD * np.std(values)
    differ = [rows for rows in gold.twins if np.ptp(values[list(rows)]) > apart]
    if len(differ) > 0.1 * len(gold.twins):
        found.append(
            f"{len(differ)} of {len(gold.twins)} texts that are there twice have 2 answers"
        )
    if not gold.classes and len(set(predicted)) > 1 and all(map(is_round, predicted)):
        found.append("all similarities have one decimal at most")
    return found


def is_round(value: float) -> bool:
    """Whether a number has one decimal at most."""
    return float(value) == round(float(value), 1)


def packed(predicted: np.ndarray, gold: Gold) -> str:
    """Predictions in the order of the labels, as a text.

    Of similarities in units of the largest: Pearson's correlation knows no scale.
    """
    if gold.classes:
        content = predicted.astype(np.int8).tobytes()
    else:
        content = _in_units_of_the_largest(predicted[None])[0].astype(np.float32).tobytes()
    return base64.b64encode(zlib.compress(content, 9)).decode()


def unpacked(text: str, gold: Gold) -> np.ndarray | None:
    """The predictions again; None where they are of other labels."""
    content = zlib.decompress(base64.b64decode(text))
    found = np.frombuffer(content, np.int8 if gold.classes else np.float32)
    return found if len(found) == len(gold.labels) else None


# ---------------------------------------------------------------------------------------------
# Metrics


def measure(predicted: np.ndarray, content: bytes, gold: Gold) -> dict[str, float | None]:
    """The metric of all rows and of each half, with intervals; the same file gives the same."""
    seed = int.from_bytes(hashlib.blake2b(content, digest_size=8).digest())
    found: dict[str, float | None] = {}
    for name, rows in (
        ("value", np.ones_like(gold.public)),
        ("public", gold.public),
        ("private", ~gold.public),
    ):
        if not rows.any():  # a half of very few rows can be empty
            continue
        y_true, y_pred = gold.labels[rows], predicted[rows]
        chance = np.random.default_rng(seed)
        if gold.classes:
            y_pred = y_pred.astype(int)
            value, f1 = accuracy_and_f1(y_true, y_pred)
            low, high = accuracy_interval(value, len(y_true), chance)
        else:
            value, f1 = float(correlations(y_true[None], y_pred[None])[0]), None
            low, high = pearson_interval(y_true, y_pred, chance)
        found[name] = value
        if name == "value":
            found |= {"f1": f1, "low": low, "high": high}
        elif name == "public":
            found |= {"public_low": low, "public_high": high}
    return found


def accuracy_interval(share: float, rows: int, chance: np.random.Generator) -> tuple[float, float]:
    """95 % percentile bootstrap interval of an accuracy.

    How many of the rows drawn with replacement are right is binomial, so it is drawn at once.
    """
    return _middle(chance.binomial(rows, share, size=10 * RESAMPLES) / rows)


def pearson_interval(
    y_true: np.ndarray, y_pred: np.ndarray, chance: np.random.Generator
) -> tuple[float, float]:
    """95 % percentile bootstrap interval of Pearson's correlation; y_true and y_pred (N,)."""
    found = [correlations(y_true[drawn], y_pred[drawn]) for drawn in draws(len(y_true), chance)]
    return _middle(np.concatenate(found))


def draws(rows: int, chance: np.random.Generator) -> Iterator[np.ndarray]:
    """The numbers of rows drawn with replacement, (R, N) at a time, RESAMPLES in all."""
    at_once = max(1, AT_ONCE // rows)
    for start in range(0, RESAMPLES, at_once):
        yield chance.integers(rows, size=(min(at_once, RESAMPLES - start), rows))


def correlations(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Pearson's correlation of each row of two arrays (R, N) → (R,); 0 where nothing varies."""
    first, second = centred(first), centred(second)
    products = (first * second).sum(axis=1)
    norms = np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1))
    return np.clip(np.divide(products, norms, out=np.zeros_like(norms), where=norms > 0), -1, 1)


def centred(values: np.ndarray) -> np.ndarray:
    """Minus the mean, in units of the largest: squares of 1e300 or 1e-300 would not be finite.

    Equal values are all 1 or -1 then, so that their mean is exact and nothing is left of them.
    """
    values = _in_units_of_the_largest(values)
    return _in_units_of_the_largest(values - values.mean(axis=1, keepdims=True))


def _in_units_of_the_largest(values: np.ndarray) -> np.ndarray:
    largest = np.abs(values).max(axis=1, keepdims=True)
    return np.divide(values, largest, out=np.zeros(values.shape), where=largest > 0)


def _middle(values: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(values, (0.025, 0.975))
    return float(low), float(high)
