"""Grade one submission: the verdict on each of its tasks, and the points that follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checks.graded_tasks import GradedTask
from course.grading.judging import judge, part1, part2
from course.grading.judging.types import Submission
from course.grading.sandbox.context import GradingContext


def grade_tasks(context: GradingContext, submission: Submission) -> dict[str, judge.Verdict]:
    """The verdict on each task of the context's part, by its id."""
    part = part2 if context.part == 2 else part1  # part 3 is judged as part 1 is
    return part.grade(context, submission)


def row_points(entry: GradedTask, settings: Mapping[str, Any]) -> dict[str, float]:
    """How many of a task's points each of its rows is worth."""
    configured = settings["grading"]["shares"]
    rows = judge.rows_of(entry)
    shares = {row: configured.get(row, 1.0) for row in rows}
    return {row: entry.points * share / sum(shares.values()) for row, share in shares.items()}


def task_result(
    entry: GradedTask, verdict: judge.Verdict, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """A task's part of the result; with ``whole_tasks`` it gives all its points or none."""
    worth = row_points(entry, settings)
    if settings["grading"]["whole_tasks"] and not all(verdict.rows.values()):
        verdict.rows = dict.fromkeys(verdict.rows, False)
    rows = [
        {"what": row, "points": round(worth[row] * right, 2), "of": round(worth[row], 2)}
        for row, right in verdict.rows.items()
    ]
    return {
        "number": entry.number,
        "title": entry.title,
        "status": verdict.status,
        "points": round(sum(worth[row] for row, right in verdict.rows.items() if right), 2),
        "of": entry.points,
        "rows": rows,
        "messages": verdict.messages,
        "mistakes": [mistake.name for mistake in verdict.mistakes],
        "hints": [mistake.text for mistake in verdict.mistakes],
        "can_be_forged": judge.CAN_BE_FORGED.get(entry.id, ""),
    }
