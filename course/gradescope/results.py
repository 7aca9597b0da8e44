"""A Result in the form of Gradescope's results.json.

There is no ``score`` at the top, so that the tests' scores add up. Every text passes ``clean``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from course.grading import points
from course.grading.intake.submissions import student_id
from course.grading.judging.predictions import overall
from course.grading.pages.output import clean
from course.grading.types import REFUSED, STATUSES, Result, Score, TaskResult

NOT_GRADED = (
    "The grader did not finish. That says nothing about your code and costs you nothing: "
    "tell the staff, who will run it again."
)
LONGEST = 4000  # characters of a test's text


def student_of(metadata: Mapping[str, Any]) -> str:
    """A name that stays the same for a group, from its members' numbers at Gradescope."""
    users = metadata.get("users")
    users = users if isinstance(users, list) else []
    numbers = [str(user.get("id")) for user in users if isinstance(user, dict)]
    return student_id("-".join(sorted(numbers)) or "nobody")


def skeleton(part: int, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Zero for every row that the grader decides, and a text that says that nothing was graded."""
    return of_result(Result("nobody", part, REFUSED), settings) | {"output": NOT_GRADED}


def of_result(result: Result, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The file for a submission that was graded or refused; people give marks at Gradescope."""
    result = points.with_marks(result, settings, {})
    tests = [
        _test(task.title, task.points, task.of, _task_text(task), number=task.number)
        | {"status": "passed" if task.status == "right" else "failed"}
        for task in result.tasks
    ]
    tests += [
        _test("Predictions", mark.points, mark.of, mark.comment)
        for mark in result.marks
        if mark.row == points.PREDICTIONS
    ]
    if result.scores:
        tests.append(_test("Scores", 0, 0, "\n".join(map(_score_text, result.scores))))
    if result.checks:
        tests.append(_test("Your own checks, worth no points", 0, 0, result.checks))
    shown = {"visibility": settings["gradescope"]["visibility"]}
    said = [f"Nothing could be graded: {result.why}"] * (result.status == REFUSED)
    made = {"tests": [test | shown for test in tests], "output_format": "text"}
    made |= {"stdout_visibility": "hidden", "extra_data": {"layers": result.layers}}
    if said := [clean(line) for line in (*said, *result.notes[:50])]:
        made["output"] = "\n".join(said)
    if settings["gradescope"]["leaderboard"]:
        made["leaderboard"] = _leaderboard(result)
    return made


def _test(name: str, score: float, most: float, text: str, **more: str) -> dict[str, Any]:
    shown = {"output": clean(text, LONGEST, lines=True), "output_format": "text"}
    return {"name": clean(name), "score": score, "max_score": most, **shown, **more}


def _task_text(task: TaskResult) -> str:
    """What was checked, what it showed, and the known mistakes that it looks like."""
    lines = [f"{STATUSES[task.status].capitalize()}."]
    lines += [f"{row.what}: {row.outcome}, {row.points:g} of {row.of:g}" for row in task.rows]
    lines += [*task.messages, *(f"Probably: {mistake.text}" for mistake in task.mistakes)]
    return "\n".join(lines)


def _score_text(score: Score) -> str:
    if score.value is None:
        return f"{score.file}: {'; '.join(score.faults) or 'there are no labels for it'}"
    interval = f"95 % interval {score.low:.3f}–{score.high:.3f}"
    return f"{score.file}: {score.metric} {score.value:.3f}, {interval}"


def _leaderboard(result: Result) -> list[dict[str, Any]]:
    """The scores; Gradescope sorts by the first row, the largest value first."""
    means = [(f"overall, {split}", overall(result.scores, split)) for split in ("test", "dev")]
    scores = sorted(result.scores, key=lambda score: (score.split == "dev", score.option))
    rows = [*means, *((score.key, score.value) for score in scores)]
    return [{"name": name, "value": round(v, 3)} for name, v in rows if v is not None]
