"""Points, computed once: of tasks from verdicts, of predictions from scores, and what people give.

Whatever shows or sums points reads a Result. What a task is worth is in checks/graded_tasks.toml,
what other rows are in course/settings.toml.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from checks.graded_tasks import GRADED_TASKS, GradedTask
from course.grading.judging.predictions import overall
from course.grading.types import GRADED, REFUSED, RIGHT, WRONG, Result, Row, TaskResult, Verdict

PREDICTIONS = "predictions"
Given = Mapping[tuple[str, str], tuple[float | None, str]]  # student, row → points, comment


def task_result(task: GradedTask, verdict: Verdict, settings: Mapping[str, Any]) -> TaskResult:
    """A task with its points: each row its share, or all but what a known mistake costs."""
    of = task.points
    shares = {row: settings["shares"].get(row, 1.0) for row in verdict.rows}
    if verdict.cost is not None:
        kept = of * (1 - verdict.cost)
        rows = [Row(f"one known mistake, which costs {verdict.cost:.0%}", WRONG, kept, of)]
    else:
        worth = {row: of * share / sum(shares.values()) for row, share in shares.items()}
        rows = [Row(n, r, worth[n] * (r == RIGHT), worth[n]) for n, r in verdict.rows.items()]
    points = round(sum(row.points for row in rows), 2)
    rounded = tuple(replace(r, points=round(r.points, 2), of=round(r.of, 2)) for r in rows)
    about = (verdict.messages, verdict.mistakes)
    return TaskResult(task.number, task.title, verdict.status, points, of, rounded, *about)


def rows_of(part: int, settings: Mapping[str, Any]) -> dict[str, tuple[str, float]]:
    """All that gives points in a part: a row's name → its title, and its most points."""
    rows = {task.number: (task.title, task.points) for task in GRADED_TASKS if task.part == part}
    if part == 2:
        rows |= {row: (row, of) for row, of in settings["manual"].items()}
        rows[PREDICTIONS] = (PREDICTIONS, settings[PREDICTIONS]["points"])
    return rows


def marked_rows(part: int, settings: Mapping[str, Any]) -> dict[str, float]:
    """What people give points for, and how many at most: of part 2 its tasks and [manual]."""
    rows = rows_of(part, settings) if part == 2 else {}
    return {row: of for row, (_, of) in rows.items() if row != PREDICTIONS}


def with_marks(result: Result, settings: Mapping[str, Any], given: Given) -> Result:
    """A result with the marks for it; a refused one has 0 in every row, and a staff error none."""
    rows, tasks = rows_of(result.part, settings), list(result.tasks)
    if result.status == REFUSED:
        tasks = [TaskResult(row, title, "missing", 0.0, of) for row, (title, of) in rows.items()]
    elif result.status != GRADED:
        tasks = []
    elif result.part == 2:
        tasks = []
        for row, (title, of) in rows.items():
            points, comment = given.get((result.student, row), (None, ""))
            if row == PREDICTIONS:
                points, comment = points_of_predictions(result, settings[PREDICTIONS])
            status = "not marked" if points is None else "marked"
            tasks.append(TaskResult(row, title, status, points, of, messages=[comment]))
    return replace(result, tasks=tasks)


def points_of_predictions(result: Result, ends: Mapping[str, float]) -> tuple[float, str]:
    """The points for part 2's overall score on test, linear between ``ends``, and a comment."""
    score = overall(result.scores, "test")
    if score is None:
        return 0.0, "not all of the three test files could be scored"
    fraction = (score - ends["none"]) / (ends["full"] - ends["none"])
    points = round(ends["points"] * min(1.0, max(0.0, fraction)), 1)
    return points, f"overall score on test {score:.3f}"
