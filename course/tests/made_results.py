"""Results of submissions as they are on disk, made up, and the rows of the tables made of them."""

import csv
from pathlib import Path
from typing import Any


def rows_in(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def task(number: str = "1.2", status: str = "right", points: float = 20.0, **more) -> dict:
    """What a graded task comes to, of 20 points."""
    return {
        "number": number,
        "title": f"Task {number} · f",
        "status": status,
        "points": points,
        "of": 20,
        "rows": [{"what": "values", "points": points, "of": 20}],
        "messages": [],
        "mistakes": [],
        "hints": [],
        **more,
    }


def prediction(split: str, value: float | None = 0.512, data: str = "sst", **more) -> dict:
    """One file of predictions and its scores."""
    option = more.pop("option", "finetune")
    return {
        "file": f"predictions/{option}-{data}-{split}-out.csv",
        "data": data,
        "split": split,
        "option": option,
        "metric": "accuracy",
        "value": value,
        "low": 0.489,
        "high": 0.535,
        "public": value,
        "public_low": 0.491,
        "public_high": 0.551,
        "private": value,
        "faults": [],
        "note": "",
        **more,
    }


def result(student: str = "a", tasks: Any = (), predictions: Any = (), **more) -> dict:
    """A graded submission of part 1."""
    return {
        "student": student,
        "part": 1,
        "sha256": "1",
        "status": "graded",
        "why": "",
        "notes": [],
        "layers": ["fresh interpreter"],
        "tasks": list(tasks),
        "extra": {},
        "predictions": list(predictions),
        **more,
    }
