"""The points of a submission, a row each: graded tasks, extra points, marks, corrections, lateness.

Whatever shows or sums points reads these rows: feedback, the class page, the tables of grades and
Gradescope's results. What each row is worth stands in settings.toml and checks/graded_tasks.toml.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from course import table
from course.grading.intake.lists import Marks

Result = Mapping[str, Any]
LATE = "late"
CORRECTION = "correction"
ALL = "all"  # of the rows, in a correction


@dataclass(frozen=True)
class Row:
    """One row of points."""

    id: str  # a task's number, a key of [extra] or [manual], LATE
    title: str
    points: float | None  # None: a manual mark that nobody has given yet
    maximum: float
    note: str = ""  # for the student
    kind: str = "task"  # or "extra", "manual", CORRECTION, LATE
    task: Mapping[str, Any] = field(default_factory=dict)  # a graded task's part of the result


@dataclass(frozen=True)
class PointSheet:
    """All rows of a submission; a row without a mark counts in neither of the two numbers."""

    rows: tuple[Row, ...]

    @property
    def total(self) -> float:
        """The points of all marked rows; nobody has fewer than 0."""
        return max(0.0, sum(row.points for row in self.rows if row.points is not None))

    @property
    def maximum(self) -> float:
        """The most that all marked rows can have."""
        return sum(row.maximum for row in self.rows if row.points is not None)

    @property
    def unmarked(self) -> list[str]:
        """The manual rows that nobody has marked yet."""
        return [row.id for row in self.rows if row.points is None]

    def of_kind(self, *kinds: str) -> list[Row]:
        """The rows of some kinds."""
        return [row for row in self.rows if row.kind in kinds]


def points_of(
    result: Result,
    settings: Mapping[str, Any],
    marks: Marks | None = None,
    late: Mapping[str, Any] | None = None,
    corrections: Marks | None = None,
) -> PointSheet | None:
    """The rows of a result; all are 0 if it was refused. None: the grader failed.

    Args:
        settings: settings.toml, checked.
        marks: what people gave, by student and row.
        late: see deadlines.lateness.
        corrections: what staff add or take away, by student and row, with the reason.
    """
    if result["status"] == "refused":
        rows = list(no_points(result["part"], settings, result["why"]).rows)
    elif result["status"] != "graded":
        return None
    else:
        rows = [
            Row(task["number"], task["title"], task["points"], task["of"], task=task)
            for task in result["tasks"]
        ]
        rows += other_rows(result, settings, marks or {})
    for (student, row), (points, reason) in (corrections or {}).items():
        if student == result["student"]:
            title = f"Correction of {'all points' if row == ALL else row}"
            note = f"{title} by staff: {points:+g}. {reason}"
            rows.append(Row(f"{CORRECTION} {row}", title, points, 0, note, CORRECTION))
    if late and result["status"] == "graded":
        lost = late["lost"] * PointSheet(tuple(rows)).total
        note = f"Handed in {late['handed_in']}, due {late['deadline']}"
        note += f": {late['why']}." if late["why"] else "."
        rows.append(Row(LATE, "Late", 0.0 - lost, 0, note, LATE))
    return PointSheet(tuple(rows))


def no_points(part: int, settings: Mapping[str, Any], note: str = "") -> PointSheet:
    """All rows of a part with 0 points."""
    tasks = [task for task in table.course_tasks(settings) if task.part == part]
    rows = [Row(task.number, task.title, 0.0, task.points, note) for task in tasks]
    others = other_rows({"part": part, "student": ""}, settings, {})
    return PointSheet((*rows, *(replace(row, points=0.0, note=note) for row in others)))


def correctable(part: int, settings: Mapping[str, Any]) -> dict[str, float]:
    """The rows that staff may correct, and by how many points at most."""
    sheet = no_points(part, settings)
    return {row.id: row.maximum for row in sheet.rows} | {ALL: sheet.maximum}


def other_rows(result: Result, settings: Mapping[str, Any], marks: Marks) -> Iterator[Row]:
    """The rows of [extra], which functions of extra.py have awarded, and of [manual]."""
    for name, row in settings["extra"].items():
        if row["part"] == result["part"] and row["points"]:
            points, note = result.get("extra", {}).get(name, (0.0, ""))
            yield Row(name, row["title"], points, row["points"], note, "extra")
    for name, maximum in settings["manual"].items() if result["part"] == 2 else ():
        points, comment = marks.get((result["student"], name), (None, ""))
        yield Row(name, name, points, maximum, comment, "manual")
