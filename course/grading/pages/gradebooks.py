"""Gradebooks: what Canvas and Moodle read, a row a student.

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
from course.grading.intake.names import NAME_BYTES, cut_to, plain_name
from course.grading.pages.output import clean, write_csv
from training.files.writing import write_whole

Result = Mapping[str, Any]
CANVAS = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
MOODLE = ["ID number", "Full name"]


def write_by_student(
    out: Path,
    results: Sequence[Result],
    roster: Sequence[Member],
    title: str,
    maximum: float,
    pages: Mapping[str, str],
) -> list[str]:
    """Both gradebooks' files, and OUT/upload/ with a page of feedback a student, for Moodle.

    Moodle takes any number for a participant's: who has none gets no file, lest another one reads
    it.

    Args:
        title: of the assignment.
        maximum: points that it can have.
        pages: the feedback of each group, HTML.

    Returns:
        lines on who is in neither gradebook or has no file, and why.
    """
    by_group = {result["student"]: result for result in results}
    final = {
        group: round(result["sheet"].total, 2)
        for group, result in by_group.items()
        if not unsettled(result)
    }
    members = [member for member in roster if member.group in final]
    canvas = [
        {
            "Student": member.student,
            "SIS User ID": member.id,
            "SIS Login ID": member.id,
            title: final[member.group],
        }
        for member in members
    ]
    possible = {"Student": "Points Possible", title: maximum}
    write_csv(out / "canvas.csv", [*CANVAS, title], [possible, *canvas])
    moodle = [
        {"ID number": member.id, "Full name": member.student, title: final[member.group]}
        for member in members
    ]
    write_csv(out / "moodle.csv", [*MOODLE, title], moodle)
    shutil.rmtree(out / "upload", ignore_errors=True)  # of an earlier roster
    for member in members:
        if member.participant:
            write_whole(out / "upload" / file_name(member), pages[member.group])
    lines = list(left_out(by_group, roster))
    if without := [member.student for member in members if not member.participant]:
        shown = ", ".join(without[:3]) + (" …" if len(without) > 3 else "")
        lines.append(clean(f"upload/: no file for {len(without)} without participant: {shown}"))
    return lines


def unsettled(result: Result) -> str:
    """Why a result is no grade yet; "" if it is one."""
    if not result["sheet"]:
        return "the grader failed"
    unmarked = result["sheet"].unmarked
    return f"no mark yet for {', '.join(unmarked)}" if unmarked else ""


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
    name = re.sub("[ _-]+", " ", cut_to(plain_name(member.student), NAME_BYTES // 2)).strip()
    number = re.sub("[ _-]+", "-", plain_name(member.participant))
    return f"{name}_{number}_assignfeedback_file_feedback.html"
