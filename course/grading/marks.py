"""The points that people give: OUT/marks.csv, which the grader begins and people fill in."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import pandas as pd

from course.grading.points import Given
from training.files.errors import InputError
from training.files.tables import check_columns, parse_table
from training.files.texts import read_text
from training.files.writing import write_whole

COLUMNS = ["student", "row", "points", "comment"]
NAME = "marks.csv"


def read_marks(out: Path, students: Collection[str], rows: Mapping[str, float]) -> Given:
    """The points and comments in OUT/marks.csv; a line without points has none yet.

    Args:
        rows: the rows that people mark, and the most points of each.

    Raises:
        InputError: the first fault, with its row and a remedy.
    """
    path = out / NAME
    marks: dict[tuple[str, str], tuple[float | None, str]] = {}
    if not path.exists():
        return marks
    table = parse_table(read_text(path), path)
    check_columns(path, table, COLUMNS)
    for number, (student, row, points, comment) in enumerate(table[COLUMNS].to_numpy(), start=1):
        fault = fault_of(student, row, points, students, rows)
        if (student, row) in marks:
            fault = f"{student} has {row} already; keep one of both"
        if fault:
            raise InputError(f"{path}, row {number}: {fault}")
        marks[student, row] = float(points) if points.strip() else None, comment
    return marks


def fault_of(
    student: str, row: str, points: str, students: Collection[str], rows: Mapping[str, float]
) -> str:
    """What is wrong with one line of the marks, and a remedy; "" if nothing is."""
    if student not in students:
        return f"{student!r} is not a submission here; correct the name, or delete the line"
    if row not in rows:
        return f"{row!r} is not a row; write one of {', '.join(rows)}"
    value = pd.to_numeric(points.strip() or "0", errors="coerce")  # nan where it is no number
    most = rows[row]
    return "" if 0 <= value <= most else f"{points!r} points for {row}; write 0 to {most:g}"


def add_rows(out: Path, given: Given, open_rows: Iterable[tuple[str, str]]) -> None:
    """Give OUT/marks.csv a line for each row that nobody has marked yet."""
    marks = {**given, **{row: (None, "") for row in open_rows if row not in given}}
    if marks != given:
        table = pd.DataFrame([(*row, *mark) for row, mark in sorted(marks.items())])
        write_whole(out / NAME, table.to_csv(index=False, header=COLUMNS, lineterminator="\n"))
