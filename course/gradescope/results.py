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
from course.grading.types import REFUSED, Result

NOT_GRADED = (
    "The grader did not finish. That says nothing about your code and costs you nothing: "
    "tell the staff, who will run it again."
)
STATUS = {True: "passed", False: "failed"}


def student_of(metadata: Mapping[str, Any]) -> str:
    """A name that stays the same for a group, from its members' numbers at Gradescope."""
    return student_id("-".join(sorted(str(user["id"]) for user in metadata["users"])))


def skeleton(part: int, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Zero for every row that the grader decides, and a text that says that nothing was graded."""
    return of_result(Result("nobody", part, REFUSED), settings) | {"output": NOT_GRADED}


def of_result(result: Result, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The file for a submission that was graded or refused; people give marks at Gradescope."""
    result = points.with_marks(result, settings, {})
    marks = tuple(mark for mark in result.marks if mark.row == points.PREDICTIONS)
    result = replace(result, marks=marks)
    rows = [(task.title, task.points, task.of) for task in result.tasks]
    rows += [(mark.row, mark.points, mark.of) for mark in marks]
    tests = [
        {"name": name, "score": score, "max_score": of, "status": STATUS[score == of]}
        for name, score, of in rows
    ]
    made = {"tests": tests, "output": pages.feedback(result, whole=False), "output_format": "html"}
    made |= {"visibility": settings["gradescope"]["visibility"], "stdout_visibility": "hidden"}
    if settings["gradescope"]["leaderboard"]:
        scores = scores_of(result).items()  # Gradescope sorts by the first one
        made["leaderboard"] = [{"name": name, "value": round(value, 3)} for name, value in scores]
    return made
