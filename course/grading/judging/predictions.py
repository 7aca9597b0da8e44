"""Predictions against the labels that staff hold: ids and a metric.

Whatever bytes a file has, the outcome is a value or a list of faults.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import evaluation
from checks.part2 import submission as part_2
from course.grading.types import Score, Submission
from datasets import load_data, load_pairs
from prepare_submit import PART_1_FILES
from training.files.course_files import SETS
from training.files.errors import InputError
from training.files.predictions import in_order, parse_predictions
from training.files.texts import decode

SPLITS = ("dev", "test")
FILES = {1: PART_1_FILES, 2: part_2.FILES, 3: {}}  # of predictions, by part: path → data, split
BYTES_A_ROW, SPARE = 100, 10_000  # a row is about 30 bytes; a file much longer is not looked at


@dataclass(frozen=True)
class Gold:
    """The labels of one data file."""

    file: str
    column: str  # of predictions
    classes: int | None  # None: similarities
    ids: tuple[str, ...]
    labels: np.ndarray  # (N,)


def load_gold(*folders: Path) -> dict[tuple[str, str], Gold]:
    """The labelled files in some folders by (data, split); of the same name, the first one's.

    Args:
        folders: which hold any of ids-sst-dev.csv, ids-sst-test.csv, … sts-test.csv.

    Raises:
        InputError: none of the files is there, or one has no labels.
    """
    gold = {}
    for data, (stem, column, label, classes) in SETS.items():
        for split in SPLITS:
            name = f"{stem}-{split}.csv"
            path = next((f / name for f in folders if (f / name).is_file()), None)
            if path is None:
                continue
            # a labelled test file is read as a dev file: rows (text …, label, id)
            single = label == "sentiment"
            rows = load_data(path, "dev", classes) if single else load_pairs(path, "dev", label)
            ids = tuple(row[-1].lower() for row in rows)  # as parse_predictions gives them
            labels = np.array([row[-2] for row in rows])
            gold[data, split] = Gold(name, column, classes, ids, labels)
    if not gold:
        listed = ", ".join(map(str, folders))
        raise InputError(f"no labelled file (ids-sst-test.csv, …) in {listed}; name its folder")
    return gold


def score(submission: Submission, gold: Mapping[tuple[str, str], Gold]) -> tuple[Score, ...]:
    """A score for each file that is handed in."""
    scores = []
    for path, (data, split, *_) in FILES[submission.part].items():
        content, labels = submission.files.get(path), gold.get((data, split))
        option = Path(path).name.split("-")[0] if submission.part == 1 else ""
        metric = "accuracy" if SETS[data].classes else "Pearson"
        result = Score(path, data, split, option, metric)
        if content is not None:
            scores.append(score_file(result, content, labels) if labels else result)
    return tuple(scores)


def score_file(result: Score, content: bytes, gold: Gold) -> Score:
    """The score of one file's bytes."""
    try:
        predicted = read(result.file, content, gold)
    except InputError as error:
        return replace(result, faults=(str(error)[:1000],))
    value = np.mean(predicted == gold.labels) if gold.classes else pearson(predicted, gold.labels)
    digest = hashlib.sha256(predicted.tobytes()).hexdigest()
    return replace(result, value=float(value), contents=digest)


def read(path: str, content: bytes, gold: Gold) -> np.ndarray:
    """The predictions in the order of the labels; InputError lists the file's faults."""
    if len(content) > BYTES_A_ROW * len(gold.ids) + SPARE:
        raise InputError(f"{path} is too long: {len(content)} bytes for {len(gold.ids)} rows")
    predicted = parse_predictions(decode(content, path), gold.column, path)
    return np.array(in_order(predicted, gold.ids, gold.file, gold.classes, path), dtype=float)


def pearson(predicted: np.ndarray, labels: np.ndarray) -> float:
    """Pearson's correlation, of numbers of any finite size; 0 where one side does not vary."""
    scaled = predicted / (np.abs(predicted).max() or 1)
    with np.errstate(all="ignore"):
        value = np.corrcoef(scaled, labels)[0, 1]
    return float(np.nan_to_num(value))


def overall(scores: Iterable[Score], split: str) -> float | None:
    """The leaderboard's mean of part 2's three scores on a split; None where one is missing."""
    values = {s.data: s.value for s in scores if s.split == split and not s.option}
    if None in (values.get(data) for data in ("sst", "para", "sts")):
        return None
    return evaluation.overall(values)
