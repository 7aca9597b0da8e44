"""The points that people give: OUT/marks.csv, which the grader begins and people fill in."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Mapping
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
        raise InputError(f"{path}, row 1 is not {','.join(COLUMNS)}; write this header there")
    marks: dict[tuple[str, str], tuple[float | None, str]] = {}
    for number, cells in enumerate(lines, start=2):
        if not any(cells):
            continue
        try:
            student, row, points, comment = cells
            value = float(points) if points else None
            fits = 0 <= (value or 0) <= rows[row]
        except (KeyError, ValueError):
            fits = False
        if not fits or student not in students or (student, row) in marks:
            raise InputError(
                f"{path}, row {number} is {','.join(cells)!r}; write a submission's name, one of "
                f"its rows ({', '.join(rows)}) once, points from 0 to the row's most, a comment"
            )
        marks[student, row] = value, comment
    return marks


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
