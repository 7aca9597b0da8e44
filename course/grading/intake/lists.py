"""What staff give besides submissions, as CSV: marks, corrections, a roster, times of handing in.

All are read, and their faults told in one line, before anything is graded.
"""

from __future__ import annotations

import csv
import math
import stat
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from course.grading.intake.names import student_id
from course.grading.pages.output import clean
from course.table import EXAMPLE, moment
from training.files.errors import InputError
from training.files.writing import write_whole

MARKS = ("student", "row", "points", "comment")
CORRECTIONS = ("student", "row", "points", "reason")  # points to add; negative ones are taken away
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
    corrections: Marks = field(default_factory=dict)


def read(
    groups: Collection[str],
    limits: Mapping[str, int],
    marks: Path | None = None,
    roster: Path | None = None,
    times: Path | None = None,
    corrections: Path | None = None,
    correctable: Mapping[str, float] | None = None,
    out: Path | None = None,
) -> Lists:
    """The files that are given; of marks and corrections else those of an earlier run.

    Args:
        groups: everybody who handed in.
        limits: rows of marks and their points, [manual] of settings.toml.
        correctable: rows of corrections and how much each may change.
        out: the folder of results, where an earlier run has kept its files.

    Raises:
        InputError: a file's first fault, with its line.
    """
    points = {}
    for columns, path, most in (
        (MARKS, marks, limits),
        (CORRECTIONS, corrections, correctable or {}),
    ):
        known, kept = groups, out and kept_in(out, columns)
        if not path and kept and kept.is_file():
            path, known = kept, None  # a group may have gone since
        points[columns] = read_marks(path, known, most, columns) if path else {}
    return Lists(
        points[MARKS],
        read_roster(roster) if roster else (),
        read_times(times, groups) if times else {},
        points[CORRECTIONS],
    )


def kept_in(out: Path, columns: Sequence[str]) -> Path:
    """Where marks or corrections are kept between runs."""
    return out / ("corrections.csv" if columns == CORRECTIONS else "marks.csv")


def keep(out: Path, marks: Path | None, corrections: Path | None) -> None:
    """Keep the files that were given, in place of those of an earlier run."""
    for columns, path in ((MARKS, marks), (CORRECTIONS, corrections)):
        if path and path.resolve() != kept_in(out, columns).resolve():
            write_whole(kept_in(out, columns), path.read_text(encoding="utf-8-sig"))


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


def read_marks(
    path: Path,
    students: Collection[str] | None,
    limits: Mapping[str, float],
    columns: Sequence[str] = MARKS,
) -> Marks:
    """Points and comments; a line without points is a row that is not marked yet.

    Args:
        students: who may be in it; None: anybody.
        columns: MARKS, or CORRECTIONS, whose points may be negative and need a reason.
    """

    def fault(line: Row) -> str:
        student, row, points = line["student"], line["row"], line["points"]
        lowest = -limits.get(row, 0) if columns == CORRECTIONS else 0
        if students is not None and student not in students:
            return f"no submission of {student!r}; correct the name"
        if row not in limits:
            return f"no row {row!r}; there are {', '.join(limits) or 'none in settings.toml'}"
        try:
            fits = lowest <= float(points or 0) <= limits[row]  # not so where it is nan
        except ValueError:
            fits = False
        if columns == CORRECTIONS and not line["reason"]:
            return "no reason; the student reads it"
        wrong = f"{points!r} is not a number from {lowest:g} to {limits[row]:g}, for {row}"
        return "" if fits else wrong

    return {
        (line["student"], line["row"]): (float(line["points"]), line[columns[-1]])
        for line in read_table(path, columns, ("student", "row"), fault)
        if line["points"]
    }


def read_roster(path: Path) -> list[Member]:
    """Every student with their group; groups may be there that have not handed in."""
    owners: dict[str, str] = {}  # students by Moodle's number, for which there is one page

    def fault(line: Row) -> str:
        if empty := [name for name in ROSTER if not line[name]]:
            return f"no {empty[0]}; fill it in"
        number = line.get(PARTICIPANT, "")
        if number and not (number.isdecimal() and number.isascii()):
            return f"{PARTICIPANT} {number!r} is not a number"
        if number and owners.setdefault(number, line["student"]) != line["student"]:
            return f"{PARTICIPANT} {number} is {owners[number]}; correct one of the two"
        return ""

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
