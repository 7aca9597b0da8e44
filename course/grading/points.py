"""Points, computed once: of tasks from verdicts, of predictions from scores, and what people give.

Whatever shows or sums points reads a Result. What rows are worth stands in settings.toml.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from checks.graded_tasks import GradedTask
from course.grading.judging.predictions import overall
from course.grading.types import (
    GRADED,
    REFUSED,
    RIGHT,
    WRONG,
    Mark,
    Result,
    Row,
    TaskResult,
    Verdict,
)
from course.settings import course_tasks

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


def marked_rows(part: int, settings: Mapping[str, Any]) -> dict[str, float]:
    """What people give points for, and how many at most: of part 2 its tasks and [manual]."""
    if part != 2:
        return {}
    tasks = {task.number: task.points for task in course_tasks(settings) if task.part == part}
    return {**tasks, **settings["manual"]}


def with_marks(result: Result, settings: Mapping[str, Any], given: Given) -> Result:
    """A result with its rows of marks; a refused one has 0 in every row, and a staff error none."""
    rows = marked_rows(result.part, settings)
    best = settings[PREDICTIONS]["points"] if result.part == 2 else 0
    if result.status == REFUSED:
        tasks = [task for task in course_tasks(settings) if task.part == result.part]
        lost = [TaskResult(t.number, t.title, "missing", 0.0, t.points) for t in tasks]
        marks = [Mark(row, of, 0.0) for row, of in rows.items()]
        marks += [Mark(PREDICTIONS, best, 0.0)] * bool(best)
        return replace(result, tasks=() if rows else tuple(lost), marks=tuple(marks))
    if result.status != GRADED:
        return replace(result, tasks=(), marks=())
    marks = [Mark(row, of, *given.get((result.student, row), ())) for row, of in rows.items()]
    return replace(result, marks=(*marks, *score_marks(result, settings, best)))


def score_marks(result: Result, settings: Mapping[str, Any], best: float) -> list[Mark]:
    """The points of [predictions] for part 2's overall score on test: linear between its ends."""
    if not best:
        return []
    score, ends = overall(result.scores, "test"), settings[PREDICTIONS]
    if score is None:
        return [Mark(PREDICTIONS, best, 0.0, "not all of the three test files could be scored")]
    fraction = (score - ends["none"]) / (ends["full"] - ends["none"])
    points = round(best * min(1.0, max(0.0, fraction)), 1)
    return [Mark(PREDICTIONS, best, points, f"overall score on test {score:.3f}")]
