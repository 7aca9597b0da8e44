"""What staff read about the class: staff.html and statistics.csv.

It shows what results hold and computes no verdict. Every text passes ``clean``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from course.grading.pages.output import (
    TEMPLATES,
    Column,
    clean,
    page,
    table,
    write_csv,
    write_text,
)
from course.grading.points import Row

Result = Mapping[str, Any]
Section = tuple[str, str, Markup]
STATUSES = (
    "right",
    "wrong",
    "not started",
    "waits",
    "crashed",
    "timeout",
    "memory",
    "missing",
    "invalid answer",
)
# Of a histogram: bars besides that of full points, and the highest one's height
BARS, HIGH = 10, 34


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
    pairs = zip(entry["mistakes"], hints, strict=False)
    return [
        clean(re.split(r"(?<=[.!?])\s", hint)[0] or name.replace("_", " "), 200)
        for name, hint in pairs
    ]


def bars(points: Sequence[float], most: float) -> list[dict[str, Any]]:
    """A histogram: how many have how many points; full points have a bar of their own.

    Returns:
        of each bar: from and to in points, how many, and its height up to HIGH.
    """
    edges = [most * number / BARS for number in range(BARS + 1)]
    places = Counter(
        min(int(BARS * value / most + 1e-9), BARS) if most else BARS for value in points
    )
    highest = max(places.values(), default=1)
    return [
        {
            "from": edges[i],
            "to": edges[min(i + 1, BARS)],
            "count": places[i],
            "height": round(HIGH * places[i] / highest, 1),
        }
        for i in range(BARS + 1)
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
    mean = f"Mean of the points {sum(fractions) / len(fractions):.0%}. " if fractions else ""
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


def look_section(results: Sequence[Result], look: Mapping[str, Sequence[str]]) -> Section:
    """What staff should look at before they believe a result."""
    rows = [
        {"student": student, "page": address(student), "look": "; ".join(look[student])}
        for student in (result["student"] for result in results)
        if student in look
    ]
    columns = [Column("student", "Group", "key", link="page"), Column("look", "Why", "long")]
    text = "No verdict, and no point depends on it: open the submission, ask the group."
    return "To look at", text, table(columns, rows, "To look at")


def address(student: str) -> str:
    """The address of a submission's feedback, seen from OUT."""
    return f"feedback/{student}.html"


def student_section(results: Sequence[Result]) -> Section:
    """Every submission with its points, and why it has none."""
    rows = []
    for result in results:
        sheet = result["sheet"]
        notes = [result.get("why", "")]
        notes += [f"no mark for {', '.join(sheet.unmarked)}"] if sheet and sheet.unmarked else []
        notes += [f"notes: {len(result['notes'])}"] if result.get("notes") else []
        late = result.get("late") or {}
        rows.append(
            {
                "student": result["student"],
                "page": address(result["student"]),
                "status": result["status"],
                "points": sheet and sheet.total,
                "of": sheet and sheet.maximum,
                "late": late.get("days"),
                "seconds": result.get("seconds"),
                "layers": ", ".join(result.get("layers", [])),
                "notes": "; ".join(filter(None, notes)),
            }
        )
    columns = [
        Column("points", "Points", "points"),
        Column("of", "Of", "points"),
        Column("student", "Group", "key", link="page"),
        Column("status", "Status"),
        Column("late", "Days late", "count"),
        Column("seconds", "Seconds", "seconds"),
        Column("notes", "Notes", "long"),
    ]
    if all(row["late"] is None for row in rows):
        columns = [column for column in columns if column.key != "late"]
    text = "Missing manual marks count in neither number. Layers of the sandbox: " + (
        "; ".join(sorted({row["layers"] for row in rows if row["layers"]})) or "none"
    )
    return "Submissions", text, table(columns, rows, "Submissions")


def write_statistics(
    out: Path, results: Sequence[Result], rows: Sequence[Mapping[str, Any]]
) -> None:
    """OUT/statistics.csv: rows as class_rows gives them, one a task, and one for all."""
    sheets = [result["sheet"] for result in results if result["status"] == "graded"]
    rows = [*rows]
    if sheets:
        rows.append(
            {
                "task": "all",
                "graded": len(sheets),
                "mean points": sum(sheet.total for sheet in sheets) / len(sheets),
                "of": max(sheet.maximum for sheet in sheets),
                "common mistakes": overview(results),
            }
        )
    columns = ["task", "title", "graded", *STATUSES, "mean points", "of", "common mistakes"]
    write_csv(out / "statistics.csv", columns, rows)


def write(
    out: Path,
    results: Sequence[Result],
    course: Mapping[str, Any],
    look: Mapping[str, Sequence[str]] | None = None,
    more: Iterable[Section] = (),
) -> None:
    """OUT/staff.html: tasks, submissions, and the sections that other parts made.

    Args:
        look: what to look at, by student.
    """
    rows = class_rows(results)
    write_statistics(out, results, rows)
    sections = [task_section(results, rows), look_section(results, look or {})]
    sections.append(student_section(results))
    lead = f"Not for students. {course['term']}".strip()
    write_text(out / "staff.html", page(f"{course['name']}: the class", lead, [*sections, *more]))
