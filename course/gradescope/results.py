"""A Result in the form of Gradescope's results.json: numbers for each test, one page of feedback.

There is no ``score`` at the top, so that the tests' scores add up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from course.grading import points
from course.grading.intake.submissions import student_id
from course.grading.pages import pages
from course.grading.pages.tables import scores_of
from course.grading.types import Result

STATUS = {True: "passed", False: "failed"}


def student_of(metadata: Mapping[str, Any]) -> str:
    """A name that stays the same for a group, from its members' numbers at Gradescope."""
    return student_id("-".join(sorted(str(user["id"]) for user in metadata["users"])))


def of_result(result: Result, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The file for a submission that was graded or refused; people give marks at Gradescope."""
    by_people = points.marked_rows(result.part, settings)
    tasks = points.with_marks(result, settings, {}).tasks
    result = replace(result, tasks=[task for task in tasks if task.number not in by_people])
    tests = [
        {"name": t.title, "score": t.points, "max_score": t.of, "status": STATUS[t.points == t.of]}
        for t in result.tasks
    ]
    made = {"tests": tests, "output": pages.feedback(result, whole=False), "output_format": "html"}
    made |= {"visibility": settings["gradescope"]["visibility"], "stdout_visibility": "hidden"}
    if settings["gradescope"]["leaderboard"]:
        scores = scores_of(result).items()  # Gradescope sorts by the first one
        made["leaderboard"] = [{"name": name, "value": round(value, 3)} for name, value in scores]
    return made
