"""What staff give besides submissions, as CSV: manual marks, a roster, times of handing in.

All three are read, and their faults told in one line, before anything is graded.
"""

from __future__ import annotations

import csv
import math
import stat
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from course.grading.intake.intake import student_id
from course.grading.pages.output import clean
from course.table import EXAMPLE, moment
from training.files.errors import InputError

MARKS = ("student", "row", "points", "comment")
ROSTER = ("group", "student", "id")
PARTICIPANT = "participant"  # a fourth column that a roster may have
TIMES = ("group", "time")
Marks = Mapping[tuple[str, str], tuple[float, str]]  # (student, row) → points, comment
Row = dict[str, str]


@dataclass(frozen=True)
class Member:
    """One student of a group, as the course's learning platform knows them."""

    group: str  # as submissions are called
    student: str
    id: str
    participant: str = ""  # Moodle's number of this student in one assignment


@dataclass(frozen=True)
class Lists:
    """All that was given."""

    marks: Marks = field(default_factory=dict)
    roster: Sequence[Member] = ()
    times: Mapping[str, float] = field(default_factory=dict)  # by group, in seconds since 1970


def read(
    groups: Collection[str],
    limits: Mapping[str, int],
    marks: Path | None = None,
    roster: Path | None = None,
    times: Path | None = None,
) -> Lists:
    """The files that are given.

    Args:
        groups: everybody who handed in.
        limits: rows of marks and their points, [manual] of settings.toml.

    Raises:
        InputError: a file's first fault, with its line.
    """
    return Lists(
        read_marks(marks, groups, limits) if marks else {},
        read_roster(roster) if roster else (),
        read_times(times, groups) if times else {},
    )


def read_table(
    path: Path,
    columns: Sequence[str],
    key: Sequence[str],
    fault: Callable[[Row], str],
    more: Sequence[str] = (),
) -> list[Row]:
    """The lines of a CSV file by column, groups as their submissions are called.

    Args:
        key: columns that no two lines have alike.
        fault: what is wrong with a line, with a remedy; "" if nothing is.
        more: columns that may follow.

    Raises:
        InputError: the first fault.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file, strict=True)
            numbered = [(lines.line_num, [cell.strip() for cell in line]) for line in lines]
    except FileNotFoundError:
        raise InputError(f"{path} is missing") from None
    except (UnicodeDecodeError, OSError, csv.Error) as error:
        raise InputError(f"{path} cannot be read: {error}; save it as CSV in UTF-8") from None
    head = [cell.lower() for cell in numbered[0][1]] if numbered else []
    if head not in ([*columns], [*columns, *more]):
        raise InputError(f"{path}, row 1 is not the header {','.join(columns)}")
    rows: dict[tuple[str, ...], Row] = {}
    for number, cells in numbered[1:]:
        if not any(cells):
            continue
        row = dict(zip(head, cells, strict=False))
        if group := row.get(columns[0]):  # as its submission may be called
            row[columns[0]] = student_id(group)
        this = tuple(row.get(name, "") for name in key)
        if len(cells) != len(head):
            message = f"{len(cells)} cells instead of {len(head)}; put a cell with commas in quotes"
        elif this in rows:
            message = f"{', '.join(this)} is there twice; remove one of the two"
        else:
            message = fault(row)
        if message:
            raise InputError(clean(f"{path}, row {number}: {message}"))
        rows[this] = row
    return list(rows.values())


def read_marks(path: Path, students: Collection[str], limits: Mapping[str, int]) -> Marks:
    """Points and comments; a line without points is a row that is not marked yet."""

    def fault(line: Row) -> str:
        student, row, points = line["student"], line["row"], line["points"]
        if student not in students:
            return f"no submission of {student!r}; correct the name"
        if row not in limits:
            return f"no row {row!r}; there are {', '.join(limits) or 'none in settings.toml'}"
        try:
            fits = 0 <= float(points or 0) <= limits[row]  # not so where it is nan
        except ValueError:
            fits = False
        wrong = f"{points!r} is not a number from 0 to {limits[row]}, which {row} can have"
        return "" if fits else wrong

    return {
        (line["student"], line["row"]): (float(line["points"]), line["comment"])
        for line in read_table(path, MARKS, ("student", "row"), fault)
        if line["points"]
    }


def read_roster(path: Path) -> list[Member]:
    """Every student with their group; groups may be there that have not handed in."""

    def fault(line: Row) -> str:
        if empty := [name for name in ROSTER if not line[name]]:
            return f"no {empty[0]}; fill it in"
        number = line.get(PARTICIPANT, "")
        wrong = number and not number.isdecimal()
        return f"{PARTICIPANT} {number!r} is not a number" if wrong else ""

    lines = read_table(path, ROSTER, ("id",), fault, more=(PARTICIPANT,))
    return [Member(**line) for line in lines]


def times_of(
    submissions: Collection[tuple[str, Path]],
    folder: Path,
    told: Mapping[str, float],
    due: float = math.inf,
) -> dict[str, float]:
    """When each group handed in, in seconds since 1970.

    A zip in the folder has the platform's time. The times in an unpacked folder are those that
    whoever packed it wrote; it was there when the system made it here, which may be much later.

    Args:
        folder: that holds the submissions, or is one.
        told: what --times says, which counts.
        due: the deadline.

    Raises:
        InputError: nobody knows whether some were in time.
    """
    times, unknown = {}, []
    for group, path in submissions:
        status = path.lstat()
        unpacked = stat.S_ISDIR(status.st_mode) or folder not in (path, path.parent)
        times[group] = status.st_ctime if unpacked else status.st_mtime
        if unpacked and group not in told and times[group] > due:
            unknown.append(group)
    if unknown:
        listed = clean(", ".join(unknown[:5])) + (" …" if len(unknown) > 5 else "")
        raise InputError(
            f"a folder's time says nothing of when it was handed in: {listed}; give --times"
        )
    return times | dict(told)


def read_times(path: Path, groups: Collection[str]) -> dict[str, float]:
    """When each group handed in, in seconds since 1970."""

    def fault(line: Row) -> str:
        if line["group"] not in groups:
            return f"no submission of {line['group']!r}; correct the name"
        return "" if moment(line["time"]) else f"{line['time']!r} is not a time such as {EXAMPLE}"

    lines = read_table(path, TIMES, ("group",), fault)
    return {line["group"]: moment(line["time"]).timestamp() for line in lines}
