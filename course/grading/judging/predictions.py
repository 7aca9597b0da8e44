"""Predictions against the labels that staff hold: metrics, intervals, a public and a private half.

The metrics come from the students' ids and values alone; whatever bytes a file has, the outcome is
a value or a list of faults. It does not know points, students' code or earlier submissions.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from checks.part2 import submission as part_2
from course.grading.judging import bootstrap
from course.grading.judging.bootstrap import RESAMPLES, in_units_of_the_largest
from course.grading.judging.types import Submission
from course.grading.pages.output import clean
from course.grading.sandbox.context import ROOT
from datasets import load_data, load_pairs
from evaluation import accuracy_and_f1
from prepare_submit import PART_1_FILES
from training.files.errors import InputError
from training.files.predictions import parse_predictions

ODD = 0.1  # of the standard deviation: by so much may predictions for one text differ
SPLITS = ("dev", "test")
PRACTICE = ROOT / "course" / "gold"  # test labels of the practice set
# Stem of the labelled file, column of predictions, column of labels, number of classes
SETS = {
    "sst": ("ids-sst", *part_2.COLUMNS["sst"]),
    "cfimdb": ("ids-cfimdb", "Predicted_Sentiment", "sentiment", 2),
    "para": ("quora", *part_2.COLUMNS["para"]),
    "sts": ("sts", *part_2.COLUMNS["sts"]),
}
FILES = {1: PART_1_FILES, 2: part_2.FILES, 3: {}}  # of predictions, by part: path → data, split …
NUMBERS = ("value", "f1", "low", "high", "public", "public_low", "public_high", "private")
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
    practice: bool = False  # whether it is the practice set's


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
            # a labelled test file is read as a dev file: rows (text …, label, id)
            if label == "sentiment":
                rows = load_data(path, "dev", classes)
            else:
                rows = load_pairs(path, "dev", label)
            ids = tuple(row[-1].lower() for row in rows)  # as parse_predictions gives them
            labels = np.array([row[-2] for row in rows])
            public = np.array([is_public(key, secret) for key in ids])
            same = twins([tuple(map(str.lower, row[:-2])) for row in rows])
            known = PRACTICE / name
            practice = known.is_file() and path.read_bytes() == known.read_bytes()
            gold[data, split] = Gold(
                name, data, split, column, classes, ids, labels, public, same, practice
            )
    if not gold:
        listed = ", ".join(map(str, folders))
        raise InputError(f"no labelled file (ids-sst-test.csv, …) in {listed}; name its folder")
    return gold


def twins(texts: Iterable[tuple]) -> tuple[tuple[int, ...], ...]:
    """The numbers of the rows that have the same text as others."""
    rows_by_text = defaultdict(list)
    for number, text in enumerate(texts):
        rows_by_text[text].append(number)
    return tuple(tuple(numbers) for numbers in rows_by_text.values() if len(numbers) > 1)


def is_public(key: str, secret: str) -> bool:
    """Whether an id belongs to the public half; who lacks the secret cannot tell."""
    by_secret = hashlib.sha256(secret.encode()).digest()
    return bool(hashlib.blake2b(key.encode(), key=by_secret, digest_size=8).digest()[0] & 1)


# ---------------------------------------------------------------------------------------------
# One submission


def is_required(data: str) -> bool:
    """Whether a submission has to have a data set's files."""
    return data != "cfimdb"


def score(submission: Submission, gold: Mapping[tuple[str, str], Gold]) -> list[dict[str, Any]]:
    """An entry a file: see score_file. Files that may be missing and are make none."""
    entries = []
    for path, (data, split, *_) in FILES[submission.part].items():
        content = submission.files.get(path)
        if content is not None or is_required(data):
            entry = score_file(path, data, split, content, gold.get((data, split)))
            option = Path(path).name.split("-")[0] if submission.part == 1 else ""
            entries.append(entry | {"option": option})
    return entries


def score_file(
    path: str, data: str, split: str, content: bytes | None, gold: Gold | None
) -> dict[str, Any]:
    """What one file is worth.

    Returns:
        file, data, split, metric, rows; NUMBERS, or None where there are faults or no labels (f1:
        of classes); faults, and a note where it is not scored; sha256 of the file; contents and
        odd: see there;
        of test data predicted, for the leaderboard's bootstrap.
    """
    entry: dict[str, Any] = {
        "file": path,
        "data": data,
        "split": split,
        "metric": "Pearson" if SETS[data][3] is None else "accuracy",
        "rows": len(gold.ids) if gold else 0,
        "faults": [],
        "note": "",
        "sha256": hashlib.sha256(content).hexdigest() if content is not None else "",
        "contents": contents_of(content) if content is not None else "",
    }
    entry |= dict.fromkeys(NUMBERS)
    if content is None:
        return entry | {"faults": [f"{path} is missing"]}
    if gold is None:
        return entry | {"note": f"not scored: no labelled {SETS[data][0]}-{split}.csv here"}
    try:
        predicted = read(path, content, gold)
    except InputError as error:
        return entry | {"faults": [clean(error, 1000)]}
    # of similarities their order alone: Pearson's correlation knows no scale
    same = predicted if gold.classes else np.unique(predicted, return_inverse=True)[1]
    entry["contents"] = hashlib.sha256(same.astype(float).tobytes()).hexdigest()
    entry |= measure(predicted, gold) | {"odd": odd(predicted, gold)}
    return entry | ({"predicted": packed(predicted, gold)} if split == "test" else {})


def contents_of(content: bytes) -> str:
    """A digest of a file's rows in any order, without blanks, empty rows and the header's case."""
    rows = {b"".join(row.split()).lower() for row in content.splitlines()} - {b""}
    return hashlib.sha256(b"\n".join(sorted(rows))).hexdigest()


def read(path: str, content: bytes, gold: Gold) -> np.ndarray:
    """The predictions in the order of the labels; InputError lists the file's faults."""
    rows = len(gold.ids)
    lines = sum(map(content.count, BREAKS))
    if len(content) > BYTES_A_ROW * rows + SPARE or lines > LINES_A_ROW * rows + SPARE:
        raise InputError(f"{path} is too long: {len(content)} bytes for {rows} predictions")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from None
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
    sentences, values = [], in_units_of_the_largest(predicted[None].astype(float))[0]
    apart = ODD * np.std(values)
    differ = [rows for rows in gold.twins if np.ptp(values[list(rows)]) > apart]
    if len(differ) > 0.1 * len(gold.twins):
        sentences.append(
            f"{len(differ)} of {len(gold.twins)} texts that are there twice have 2 answers"
        )
    one_decimal = all(float(value) == round(float(value), 1) for value in predicted)
    if not gold.classes and len(set(predicted)) > 1 and one_decimal:
        sentences.append("all similarities have one decimal at most")
    return sentences


def packed(predicted: np.ndarray, gold: Gold) -> str:
    """Predictions in the order of the labels, as a text.

    Of similarities in units of the largest: Pearson's correlation knows no scale.
    """
    if gold.classes:
        content = predicted.astype(np.int8).tobytes()
    else:
        content = in_units_of_the_largest(predicted[None])[0].astype(np.float32).tobytes()
    return base64.b64encode(zlib.compress(content, 9)).decode()


def unpacked(text: str, gold: Gold) -> np.ndarray | None:
    """The predictions again; None where they are of other labels."""
    content = zlib.decompress(base64.b64decode(text))
    values = np.frombuffer(content, np.int8 if gold.classes else np.float32)
    return values if len(values) == len(gold.labels) else None


# ---------------------------------------------------------------------------------------------
# Metrics


def measure(predicted: np.ndarray, gold: Gold) -> dict[str, float | None]:
    """The metric of all rows and of each half, with intervals."""
    figures: dict[str, float | None] = {}
    for name, rows in (
        ("value", np.ones_like(gold.public)),
        ("public", gold.public),
        ("private", ~gold.public),
    ):
        if not rows.any():  # a half of very few rows can be empty
            continue
        labels, values, f1 = gold.labels[rows], predicted[rows], None
        if gold.classes:
            figures[name], f1 = accuracy_and_f1(labels, values.astype(int))
            # how many of the rows drawn with replacement are right is binomial
            chance, count = np.random.default_rng(len(labels)), len(labels)
            samples = chance.binomial(count, figures[name], size=10 * RESAMPLES) / count
        else:
            equal = np.full((len(labels), 1), 1 / len(labels))
            figures[name] = bootstrap.pearson(values[None], labels, equal).item()
            samples = bootstrap.resampled(values[None], labels, None)
        prefix = "" if name == "value" else f"{name}_"
        low, high = np.quantile(samples, (0.025, 0.975)).tolist()
        figures |= {f"{prefix}low": low, f"{prefix}high": high}
        figures |= {"f1": f1} if name == "value" else {}
    return {name: number for name, number in figures.items() if name in NUMBERS}
