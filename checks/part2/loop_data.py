"""Made-up training data for the check of the loop, and changes of it, one respect at a time."""

from __future__ import annotations

import csv
import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from checks.part2.submission import COLUMNS

WORDS = ["".join(pair) for pair in itertools.product("bcdfghjklmnprstvwxyz", "aeiou")]  # 100
HALF = len(WORDS) // 2  # the first half is what is trained on, the second takes its place
ENDS = (0.0, 5.0)  # of the scale of STS
Row = tuple[Any, ...]  # a sentence or two, label


def made_up(count: int, seed: int) -> dict[str, list[Row]]:
    """Rows of the three tasks.

    Labels of STS are x.6, x.75 and x.9, which rounding and cutting make one, and the ends of the
    scale: there even a loss that only asks whether a score is too high sees a label that changes.
    """
    chance = random.Random(seed)

    def sentence() -> str:
        return " ".join(chance.choices(WORDS[:HALF], k=chance.randint(2, 5)))

    labels = {
        "sst": [i % 5 for i in range(count)],
        "para": [i % 2 for i in range(count)],
        "sts": [
            1 + i % 4 + (0.6, 0.75, 0.9)[i // 4] if i < 12 else ENDS[i % 2] for i in range(count)
        ],
    }
    return {
        task: [
            (*(sentence() for _ in range(1 if task == "sst" else 2)), label) for label in of_task
        ]
        for task, of_task in labels.items()
    }


def other_words(side: int) -> Callable[[Row], Row]:
    """A change of a row: one sentence has other words, as many and as long as before."""

    def change(row: Row) -> Row:
        words = [WORDS[WORDS.index(word) + HALF] for word in row[side].split()]
        return (*row[:side], " ".join(words), *row[side + 1 :])

    return change


def another_label(task: str) -> Callable[[Row], Row]:
    """A change of a row: the next class, or for STS another whole number with the same rest."""
    moved: Callable[[Any], Any] = {
        "sst": lambda label: (label + 1) % 5,
        "para": lambda label: 1 - label,
        "sts": lambda label: 5 - label if label in ENDS else label % 1 + label // 1 % 4 + 1,
    }[task]
    return lambda row: (*row[:-1], moved(row[-1]))


def another_fraction(row: Row) -> Row:
    """A change of a row of STS: .6 and .9 change places, so that the order of labels changes."""
    return row if row[-1] in ENDS else (*row[:-1], row[-1] // 1 + 1.5 - row[-1] % 1)


def swapped_levels(low: int) -> Callable[[Row], Row]:
    """A change of a row of STS: two neighbouring whole numbers change places, the rest stays."""

    def change(row: Row) -> Row:
        whole = int(row[-1])
        other = {low: low + 1, low + 1: low}.get(whole, whole)
        return (*row[:-1], row[-1] - whole + other)

    return change


def write(path: Path, task: str, rows: list[Row], labelled: bool = True) -> None:
    """A course file: tab-separated, an unnamed column of numbers first."""
    texts = ["sentence"] if task == "sst" else ["sentence1", "sentence2"]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(["", "id", *texts, *([COLUMNS[task][1]] if labelled else [])])
        for i, (*sentences, label) in enumerate(rows):
            writer.writerow([i, f"{task}{i}", *sentences, *([f"{label:g}"] if labelled else [])])
