"""What staff read about the class: staff.html, grades.csv and statistics.csv.

It shows what results hold and computes no verdict. Every text passes ``clean``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from course.grading.pages.leaderboard import scores_of
from course.grading.pages.output import (
    TEMPLATES,
    Column,
    clean,
    page,
    table,
    write_csv,
)
from course.grading.pages.reports import SAYS
from course.grading.points import Row
from training.files.writing import write_whole

Result = Mapping[str, Any]
Section = tuple[str, str, Markup]
STATUSES = ("right", "wrong", "not started", *SAYS)
# Of a histogram: bars besides that of full points, and the highest one's height
BARS, HIGH = 10, 34


# ---------------------------------------------------------------------------------------------
# A line a task


def class_rows(results: Iterable[Result]) -> list[dict[str, Any]]:
    """A line a row of points: statuses, how many have how many points, common mistakes."""
    sheets = [result["sheet"] for result in results if result["status"] == "graded"]
    by_id: dict[str, list[Row]] = {}
    for row in (row for sheet in sheets for row in sheet.of_kind("task", "extra", "manual")):
        if row.points is not None:
            by_id.setdefault(row.id, []).append(row)
    lines = []
    for name, rows in by_id.items():
        statuses = Counter(row.task["status"] for row in rows if row.task)
        mistakes = Counter(hint for row in rows if row.task for hint in set(in_words(row.task)))
        common = [f"{hint} ({count})" for hint, count in mistakes.most_common(5)]
        points = [row.points for row in rows]
        lines.append(
            {
                "task": name,
                "title": rows[0].title,
                "graded": len(rows),
                **{status: statuses[status] for status in STATUSES},
                "mean points": sum(points) / len(points),
                "of": rows[0].maximum,
                "common mistakes": " ".join(common),
                "mistakes": common,
                "can be forged": rows[0].task.get("can_be_forged", ""),
                "bars": bars(points, rows[0].maximum),
            }
        )
    return lines


def in_words(entry: Mapping[str, Any]) -> list[str]:
    """The first sentence about each mistake of a task, or its name."""
    hints = [*entry.get("hints", []), *[""] * len(entry["mistakes"])]
    return [
        clean(re.split(r"(?<=[.!?])\s", hint)[0] or name.replace("_", " "), 200)
        for name, hint in zip(entry["mistakes"], hints, strict=False)
    ]


def bars(points: Sequence[float], most: float) -> list[dict[str, Any]]:
    """A histogram: how many have how many points; full points have a bar of their own.

    Returns:
        of each bar: from and to in points, how many, and its height up to HIGH.
    """
    edges = np.linspace(0, most, BARS + 1)
    counts, _ = np.histogram(points, [*(edges - 1e-9), np.inf])
    heights = (HIGH * counts / counts.max()).round(1)
    bounds = zip(edges.tolist(), [*edges[1:].tolist(), most], strict=True)
    return [
        {"from": low, "to": high, "count": count, "height": height}
        for (low, high), count, height in zip(
            bounds, counts.tolist(), heights.tolist(), strict=True
        )
    ]


def overview(results: Sequence[Result]) -> str:
    """How many there are of what, and points, in a sentence or two."""
    statuses = Counter(result["status"] for result in results)
    listed = ", ".join(f"{count} {status}" for status, count in statuses.most_common())
    graded = [result for result in results if result["status"] == "graded"]
    if not graded:
        return f"{len(results)} submissions: {listed or 'none'}."
    sheets = [result["sheet"] for result in graded]
    fractions = [sheet.total / sheet.maximum for sheet in sheets if sheet.maximum]
    mean = ""
    if fractions:
        mean = f"Mean of the points {sum(fractions) / len(fractions):.0%}, lateness included. "
    rest = "Refused submissions and grader errors are excluded from averages."
    return f"{len(results)} submissions: {listed}. {mean}{rest}"


def task_section(results: Sequence[Result], rows: Iterable[Mapping[str, Any]]) -> Section:
    """Of each task who is where, and why; rows as class_rows gives them."""
    shown = [
        {
            **row,
            "title": row["title"].split(" · ")[-1],
            "statuses": [f"{row[status]} {status}" for status in STATUSES if row[status]],
        }
        for row in rows
    ]
    html = TEMPLATES.get_template("tasks.html").render(rows=shown)
    return "Tasks", overview(results), Markup(html)


def write_statistics(
    out: Path, results: Sequence[Result], rows: Sequence[Mapping[str, Any]]
) -> None:
    """OUT/statistics.csv: rows as class_rows gives them, one a task, and one for all."""
    sheets = [result["sheet"] for result in results if result["status"] == "graded"]
    together = {
        "task": "all",
        "graded": len(sheets),
        "mean points": sum(sheet.total for sheet in sheets) / max(1, len(sheets)),
        "of": max((sheet.maximum for sheet in sheets), default=0),
        "common mistakes": overview(results),
    }
    columns = ["task", "title", "graded", *STATUSES, "mean points", "of", "common mistakes"]
    write_csv(out / "statistics.csv", columns, [*rows, together])


# ---------------------------------------------------------------------------------------------
# A line a submission


def submission_rows(results: Iterable[Result]) -> list[dict[str, Any]]:
    """Points in all and by row; whom the grader failed has no points, not zero."""
    rows = []
    for result in results:
        sheet, late, scores = result["sheet"], result["late"] or {}, scores_of(result)
        rows.append(
            {
                **({row.id: row.points for row in sheet.rows} if sheet else {}),
                **{key: scores[key]["value"] for key in scores if key.endswith("-test")},
                "student": result["student"],
                "page": f"feedback/{result['student']}.html",
                "part": result.get("part"),
                "status": result["status"],
                "points": sheet and sheet.total,
                "of graded rows": sheet and sheet.maximum,
                "rows without a mark": ", ".join(sheet.unmarked) or None if sheet else None,
                "handed in": late.get("handed_in"),
                "days late": late.get("days"),
                "seconds": result.get("seconds"),
                "why": result.get("why") or None,
                "sha256": result.get("sha256", ""),
            }
        )
    return rows


def write_grades(out: Path, results: Sequence[Result], rows: Sequence[Mapping[str, Any]]) -> None:
    """OUT/grades.csv: rows as submission_rows gives them."""
    sheets = [result["sheet"] for result in results if result["sheet"]]
    ids = dict.fromkeys(row.id for sheet in sheets for row in sheet.rows)
    tests = dict.fromkeys(key for row in rows for key in row if key.endswith("-test"))
    columns = ["student", "part", "status", "points", "of graded rows", "rows without a mark"]
    columns += ["handed in", "days late", *ids, *tests, "seconds", "why", "sha256"]
    write_csv(out / "grades.csv", columns, rows)


def student_section(rows: Sequence[Mapping[str, Any]]) -> Section:
    """Every submission with its points, and why it has none."""
    columns = [
        Column("student", "Group", "key", link="page"),
        Column("points", "Points", "points"),
        Column("of graded rows", "Of", "points"),
        Column("status", "Status"),
        Column("days late", "Days late", "count"),
        Column("seconds", "Seconds", "seconds"),
        Column("rows without a mark", "Without a mark", "long"),
        Column("why", "Why", "long"),
    ]
    used = [column for column in columns if any(row[column.key] is not None for row in rows)]
    text = "Missing manual marks count in neither number."
    return "Submissions", text, table(used, rows, "Submissions")


def look_section(results: Sequence[Result], look: Mapping[str, Sequence[str]]) -> Section:
    """What staff should look at before they believe a result."""
    students = [result["student"] for result in results if result["student"] in look]
    rows = [
        {"student": student, "page": f"feedback/{student}.html", "look": "; ".join(look[student])}
        for student in students
    ]
    columns = [Column("student", "Group", "key", link="page"), Column("look", "Why", "long")]
    text = "No verdict, and no point depends on it: open the submission, ask the group."
    return "To look at", text, table(columns, rows, "To look at")


def write(
    out: Path,
    results: Sequence[Result],
    course: Mapping[str, Any],
    look: Mapping[str, Sequence[str]] | None = None,
    more: Iterable[Section] = (),
) -> None:
    """The tables, and OUT/staff.html with the sections that other parts made.

    Args:
        look: what to look at, by student.
    """
    tasks, submissions = class_rows(results), submission_rows(results)
    write_statistics(out, results, tasks)
    write_grades(out, results, submissions)
    sections = [task_section(results, tasks), look_section(results, look or {})]
    sections.append(student_section(submissions))
    lead = f"Not for students. {course['term']}".strip()
    write_whole(out / "staff.html", page(f"{course['name']}: the class", lead, [*sections, *more]))
