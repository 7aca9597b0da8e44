"""Points besides those of the graded tasks: one function for each row of [extra] in settings.toml.

A function takes the grading's context and the submission, whose code may run in the sandbox only.
It returns which fraction of the row's points it earns, with a note for the student. FUNCTIONS has
them by the row's key. A row of 0 points is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from course.grading.judging import hunt
from course.grading.judging.types import Submission
from course.grading.sandbox.context import GradingContext
from training.files.errors import InputError

FUNCTIONS: dict[str, Callable[[GradingContext, Submission], tuple[float, str]]] = {
    "tests": hunt.grade,
}


def functions_of(part: int, settings: Mapping[str, Any]) -> dict[str, Callable]:
    """The functions of a part's rows; InputError if there is a row without one."""
    names = [
        name for name, row in settings["extra"].items() if row["part"] == part and row["points"]
    ]
    for name in names:
        if name not in FUNCTIONS:
            raise InputError(f"course/grading/judging/extra.py has no function for extra.{name}")
    return {name: FUNCTIONS[name] for name in names}


def award(context: GradingContext, submission: Submission) -> dict[str, tuple[float, str]]:
    """Points and note of each row of the submission's part."""
    awarded = {}
    for name, function in functions_of(submission.part, context.settings).items():
        fraction, note = function(context, submission)
        awarded[name] = round(fraction * context.settings["extra"][name]["points"], 2), note
    return awarded
