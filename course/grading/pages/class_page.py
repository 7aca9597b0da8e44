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

from course.grading.pages.gradebooks import grade
from course.grading.pages.output import (
    TEMPLATES,
    Column,
    clean,
    page,
    table,
    write_csv,
    write_text,
)
from course.grading.pages.reports import totals

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
    """A row a task: statuses, mean points and how many have which, the most common mistakes."""
    graded = [result for result in results if result["status"] == "graded"]
    entries: dict[str, list[Mapping]] = {}
    for result in graded:
        for entry in result["tasks"]:
            entries.setdefault(entry["number"], []).append(entry)
    rows = []
    for number in sorted(entries, key=lambda text: [int(n) for n in re.findall(r"\d+", text)]):
        group = entries[number]
        statuses = Counter(entry["status"] for entry in group)
        mistakes = Counter(said for entry in group for said in set(in_words(entry)))
        common = [f"{said} ({count})" for said, count in mistakes.most_common(5)]
        rows.append(
            {
                "task": number,
                "title": group[0]["title"],
                "graded": len(group),
                **{status: statuses[status] for status in STATUSES},
                "mean points": sum(entry["points"] for entry in group) / len(group),
                "of": group[0]["of"],
                "common mistakes": " ".join(common),
                "mistakes": common,
                "can be forged": group[0].get("can_be_forged", ""),
                "bars": bars([entry["points"] for entry in group], group[0]["of"]),
            }
        )
    return rows


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
    shares = [points / most for points, most, _ in map(totals, graded) if most]
    mean = f"Mean share of the points {sum(shares) / len(shares):.0%}. " if shares else ""
    rest = "What was refused or went wrong on the staff's side is in no mean."
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
        {"student": one["student"], "page": address(one), "look": "; ".join(look[one["student"]])}
        for one in results
        if one["student"] in look
    ]
    columns = [Column("student", "Group", "key", link="page"), Column("look", "Why", "long")]
    text = "No verdict, and no point depends on it: open the submission, ask the group."
    return "To look at", text, table(columns, rows, "To look at")


def address(result: Result) -> str:
    """Of a submission's feedback, from OUT."""
    return f"feedback/{result['student']}.html"


def student_section(results: Sequence[Result]) -> Section:
    """Every submission with its points, and why it has none."""
    rows = []
    for result in results:
        points, most = grade(result)
        missing = totals(result)[2] if result["status"] == "graded" else []
        notes = [result.get("why", "")]
        notes += [f"no mark for {', '.join(missing)}"] if missing else []
        notes += [f"notes: {len(result['notes'])}"] if result.get("notes") else []
        late = result.get("late") or {}
        rows.append(
            {
                "student": result["student"],
                "page": address(result),
                "status": result["status"],
                "points": points,
                "of": None if points is None else most,
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
    text = "Rows of the rubric without a mark are in neither number. Layers of the sandbox: " + (
        "; ".join(sorted({row["layers"] for row in rows if row["layers"]})) or "none"
    )
    return "Submissions", text, table(columns, rows, "Submissions")


def write_statistics(
    out: Path, results: Sequence[Result], rows: Sequence[Mapping[str, Any]]
) -> None:
    """OUT/statistics.csv: rows as class_rows gives them, one a task, and one for all."""
    graded = [result for result in results if result["status"] == "graded"]
    rows = [*rows]
    if graded:
        sums = [totals(result) for result in graded]
        rows.append(
            {
                "task": "all",
                "graded": len(graded),
                "mean points": sum(points for points, _, _ in sums) / len(graded),
                "of": max(most for _, most, _ in sums),
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
