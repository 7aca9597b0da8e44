"""The points that people give, from one CSV file: student,row,points,comment."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Mapping
from pathlib import Path

from course.grading.points import Given
from training.files.errors import InputError
from training.files.writing import write_whole

COLUMNS = ["student", "row", "points", "comment"]
KEPT, TEMPLATE = "marks.csv", "marks-template.csv"  # in OUT


def read_marks(out: Path, path: Path | None, students: Collection[str], rows: Given) -> Given:
    """The marks in a file, which OUT keeps, or else in the one that it has kept.

    A line without points is a row that nobody has marked yet.

    Args:
        rows: the rows that people mark, and the most points of each.

    Raises:
        InputError: the first fault, with its row and a remedy.
    """
    path = path or out / KEPT
    if path == out / KEPT and not path.exists():
        return {}
    try:
        text = path.read_text(encoding="utf-8-sig")
        lines = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"{path} cannot be read ({error}); save it as CSV in UTF-8") from None
    if not lines or lines[0] != COLUMNS:
        raise InputError(f"{path}, row 1 is not {','.join(COLUMNS)}; write this header there")
    marks: dict[tuple[str, str], tuple[float, str]] = {}
    for number, cells in enumerate(lines[1:], start=2):
        if not any(cells):
            continue
        if fault := fault_of(cells, marks, students, rows):
            raise InputError(f"{path}, row {number}: {fault}")
        student, row, points, comment = cells
        if points:
            marks[student, row] = (float(points), comment)
    if path != out / KEPT:
        write_whole(out / KEPT, text)
    return marks


def fault_of(
    cells: list[str], marks: Given, students: Collection[str], rows: Mapping[str, float]
) -> str:
    """What is wrong with a line, with the remedy; "": nothing."""
    if len(cells) != len(COLUMNS):
        return f"{len(cells)} cells instead of 4; put a cell with commas in quotes"
    student, row, points, _ = cells
    if student not in students:
        return f"no submission is called {student!r}; write a name of grades.csv"
    if row not in rows:
        return f"{row!r} is not a row; write one of {', '.join(rows)}"
    if (student, row) in marks:
        return f"{student}, {row} has two lines; remove one of them"
    try:
        fits = not points or 0 <= float(points) <= rows[row]
    except ValueError:
        fits = False
    return "" if fits else f"{points!r} is not a number from 0 to {rows[row]}; write one"


def write_template(out: Path, open_rows: Collection[tuple[str, str]]) -> None:
    """OUT/marks-template.csv: a line for each row that nobody has marked yet."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(
        [COLUMNS, *([*row, "", ""] for row in open_rows)]
    )
    write_whole(out / TEMPLATE, text.getvalue())
