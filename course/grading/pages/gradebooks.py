"""Tables of grades: grades.csv for staff, and what Canvas and Moodle read, a row a student.

Canvas takes a CSV whose first line begins with Student, ID, SIS User ID, SIS Login ID, Section; a
line of "Points Possible" may follow. It looks for a student by the first of the three ids that it
knows. Moodle's CSV has a header of any words; staff say there which column is what. A zip of files
goes to Moodle's students where names are name_PARTICIPANT_assignfeedback_file_name. It does not
know how points are made.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from course.grading.intake.lists import Member
from course.grading.pages import reports
from course.grading.pages.leaderboard import scores_of
from course.grading.pages.output import clean, write_csv, write_text

Result = Mapping[str, Any]
CANVAS = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
MOODLE = ["ID number", "Full name"]


def grade(result: Result) -> tuple[float | None, float]:
    """(points, most points): 0 where it was refused, None where the grader failed."""
    points, most, _ = reports.totals(result)
    if result["status"] == "graded":
        return points, most
    return (0.0, result["of"]) if result["status"] == "refused" else (None, 0.0)


def write_grades(out: Path, results: Sequence[Result]) -> None:
    """OUT/grades.csv: a row a submission; whom the grader failed has no points, not zero."""
    rows, parts, tests = [], {}, {}
    for result in results:
        points, most = grade(result)
        late = result.get("late") or {}
        graded = result["status"] == "graded"
        own = {task["number"]: task["points"] for task in result.get("tasks", [])}
        own |= {row["row"]: row["points"] for row in result.get("manual", []) if graded}
        test = {k: v["value"] for k, v in scores_of(result).items() if k.endswith("-test")}
        parts, tests = parts | dict.fromkeys(own), tests | dict.fromkeys(test)
        rows.append(
            {
                **own,
                **test,
                "student": result["student"],
                "part": result.get("part"),
                "status": result["status"],
                "points": points,
                "of graded rows": None if points is None else most,
                "rows without a mark": ", ".join(reports.totals(result)[2]) if graded else "",
                "handed in": late.get("handed_in"),
                "days late": late.get("days"),
                "lost by it": late.get("lost"),
                "seconds": result.get("seconds"),
                "why": result.get("why", ""),
                "sha256": result.get("sha256", ""),
            }
        )
    columns = ["student", "part", "status", "points", "of graded rows", "rows without a mark"]
    columns += ["handed in", "days late", "lost by it", *parts, *tests, "seconds", "why", "sha256"]
    write_csv(out / "grades.csv", columns, rows)


def write_by_student(
    out: Path,
    results: Sequence[Result],
    roster: Sequence[Member],
    title: str,
    most: float,
    pages: Mapping[str, str],
) -> list[str]:
    """Both gradebooks' files, and OUT/upload/ with a page of feedback a student.

    Args:
        title: of the assignment.
        most: points that it can have.
        pages: the feedback of each group, HTML.

    Returns:
        a line for each group of students that is in neither gradebook, and why.
    """
    by_group = {result["student"]: result for result in results}
    final = {name: grade(one)[0] for name, one in by_group.items() if not unsettled(one)}
    members = [member for member in roster if member.group in final]
    points = {member.id: round(final[member.group], 2) for member in members}
    canvas = [
        {
            "Student": one.student,
            "SIS User ID": one.id,
            "SIS Login ID": one.id,
            title: points[one.id],
        }
        for one in members
    ]
    possible = {"Student": "Points Possible", title: most}
    write_csv(out / "canvas.csv", [*CANVAS, title], [possible, *canvas])
    moodle = [
        {"ID number": one.id, "Full name": one.student, title: points[one.id]} for one in members
    ]
    write_csv(out / "moodle.csv", [*MOODLE, title], moodle)
    shutil.rmtree(out / "upload", ignore_errors=True)  # of an earlier roster
    for member in members:
        write_text(out / "upload" / file_name(member), pages[member.group])
    return list(left_out(by_group, roster))


def unsettled(result: Result) -> str:
    """Why a result is no grade yet; "" if it is one."""
    if grade(result)[0] is None:
        return "the grader failed"
    missing = reports.totals(result)[2] if result["status"] == "graded" else []
    return f"no mark yet for {', '.join(missing)}" if missing else ""


def left_out(by_group: Mapping[str, Result], roster: Sequence[Member]) -> Iterator[str]:
    """What keeps students out of the gradebooks, group by group."""
    for group in dict.fromkeys(member.group for member in roster):
        why = unsettled(by_group[group]) if group in by_group else "no submission"
        if why:
            yield clean(f"{group}: in no gradebook, {why}")
    known = {member.group for member in roster}
    for group in (name for name in by_group if name not in known):
        yield clean(f"{group}: in no gradebook, the roster has no student of it")


def file_name(member: Member) -> str:
    """A file's name from which Moodle tells whose it is; no sign in it has a meaning anywhere."""
    name = re.sub(r"[\W_]+", " ", clean(member.student, 60)).strip()
    number = re.sub(r"[\W_]+", "-", member.participant or member.id)
    return f"{name}_{number}_assignfeedback_file_feedback.html"
