"""The points that people give: OUT/marks.csv, which the grader begins and people fill in."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from course.grading.points import Given
from training.files.errors import InputError
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
    content = path.read_bytes() if path.exists() else ",".join(COLUMNS).encode()
    try:
        text = io.StringIO(content.decode("utf-8-sig"), newline="")
        header, *lines = csv.reader(text, strict=True)
    except (ValueError, csv.Error) as error:
        raise InputError(f"{path} cannot be read ({error}); save it as CSV in UTF-8") from None
    if header != COLUMNS:
        header = ",".join(COLUMNS)
        raise InputError(f"{path}, row 1 is not {header}; write it there, and commas between cells")
    marks: dict[tuple[str, str], tuple[float | None, str]] = {}
    for number, cells in enumerate(lines, start=2):
        if not any(cells):
            continue
        if fault := fault_of(cells, students, rows):
            raise InputError(f"{path}, row {number}: {fault}")
        student, row, points, comment = cells
        if (student, row) in marks:
            raise InputError(f"{path}, row {number}: {student} has {row} already; keep one of both")
        marks[student, row] = float(points) if points.strip() else None, comment
    return marks


def fault_of(cells: Sequence[str], students: Collection[str], rows: Mapping[str, float]) -> str:
    """What is wrong with one line of the marks, and a remedy; "" if nothing is."""
    if len(cells) != len(COLUMNS):
        return f"{len(cells)} cells instead of {len(COLUMNS)}; put a comment with commas in quotes"
    student, row, points, _ = cells
    if student not in students:
        return f"{student!r} is not a submission here; correct the name, or delete the line"
    if row not in rows:
        return f"{row!r} is not a row; write one of {', '.join(rows)}"
    try:
        fits = 0 <= float(points or 0) <= rows[row]
    except ValueError:
        fits = not points.strip()
    return "" if fits else f"{points!r} points for {row}; write a number from 0 to {rows[row]:g}"


def add_rows(out: Path, given: Given, open_rows: Iterable[tuple[str, str]]) -> None:
    """Give OUT/marks.csv a line for each row that nobody has marked yet."""
    marks = {**given, **{row: (None, "") for row in open_rows if row not in given}}
    if marks == given:
        return
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row, (points, comment) in sorted(marks.items()):
        writer.writerow([*row, points, comment])  # None is written as an empty cell
    write_whole(out / NAME, text.getvalue())
