"""All that a batch writes from its results: feedback, the staff's page, grades, the leaderboard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from checks.graded_tasks import GRADED_TASKS
from course.grading.pages import leaderboard, review
from course.grading.pages.output import cell, page, write_csv
from course.grading.types import GRADED, STATUSES, WRONG, Mark, Result, Score, TaskResult
from training.files.writing import write_whole

KNOWN = {task.number: task for task in GRADED_TASKS}
SHOWN = ("student", "points", "of", "status", "unmarked", "why")  # of grades.csv, on staff's page


def write_all(out: Path, results: Sequence[Result], settings: Mapping[str, Any]) -> None:
    """Write all pages and tables into OUT.

    Args:
        results: of one part, with marks; those included where the grader failed.
        settings: settings.toml, checked.
    """
    for result in results:
        write_whole(out / "feedback" / f"{result.student}.html", feedback(result))
    part, course = results[0].part, settings["course"]["name"]
    if part in leaderboard.SCORES:
        leaderboard.write(out, results, part, course)
    rows = [submission_row(result) for result in results]
    write_csv(out / "grades.csv", rows)
    look = review.to_look_at(results, settings["look"])
    tables = {
        "Rows of points": [*task_rows(results)],
        "To look at": [{"student": who, "why": "; ".join(texts)} for who, texts in look.items()],
        "Submissions": [{key: row[key] for key in SHOWN} for row in rows],
    }
    lead = f"Not for students. {overview(results)}"
    html = page("tables.html", f"{course}: part {part}", lead, tables=tables, links=True)
    write_whole(out / "staff.html", html)


def feedback(result: Result) -> str:
    """The page that one student gets to read."""
    lists = {
        "Points by people and for predictions": [mark_line(mark) for mark in result.marks],
        "Predictions": [score_line(score) for score in result.scores],
        "What we noticed in your files": result.notes,
    }
    more = {"result": result, "says": STATUSES, "known": KNOWN, "reason": reason, "lists": lists}
    return page("feedback.html", f"{result.student}, part {result.part}", **more)


def mark_line(mark: Mark) -> str:
    """A row of points that people give, or predictions earn."""
    points = "not marked yet" if mark.points is None else f"{cell(mark.points)} of {cell(mark.of)}"
    return f"{KNOWN[mark.row].title if mark.row in KNOWN else mark.row}: {points} {mark.comment}"


def score_line(score: Score) -> str:
    """A file of predictions with its score."""
    if score.value is None:
        return "; ".join(score.faults) or f"{score.file} is not scored"
    interval = f"95 % interval {cell(score.low)} to {cell(score.high)}"
    return f"{score.file}: {score.metric} {cell(score.value)}, {interval}"


def reason(task: TaskResult) -> str:
    """Why some rows of a task are not counted."""
    first = [row.what for row in task.rows if row.outcome == WRONG][:1]
    return f"{first[0]} wrong" if first else STATUSES[task.status]


def overview(results: Sequence[Result]) -> str:
    """How many submissions there are of each kind."""
    statuses = Counter(result.status for result in results).most_common()
    return f"Submissions: {', '.join(f'{count} {status}' for status, count in statuses)}."


def points_of(result: Result) -> dict[str, tuple[float | None, float]]:
    """A result's points by row, and the most that the row can have: tasks by number, then marks."""
    tasks = {task.number: (task.points, task.of) for task in result.tasks}
    return tasks | {mark.row: (mark.points, mark.of) for mark in result.marks}


def submission_row(result: Result) -> dict[str, Any]:
    """A line of grades.csv; whom the grader failed has no points."""
    points, scores = points_of(result), leaderboard.scores_of(result)
    return {
        "student": result.student,
        "part": result.part,
        "status": result.status,
        "points": round(result.points, 2) if points else None,
        "of": float(result.of) if points else None,
        "unmarked": ", ".join(result.unmarked) or None,
        "why": result.why.strip().rpartition("\n")[2] or None,
        "sha256": result.sha256,
        **{row: given for row, (given, _) in points.items()},
        **{key: value for key, value in scores.items() if key.endswith("-test")},
    }


def task_rows(results: Sequence[Result]) -> Iterator[dict[str, Any]]:
    """A line for each row of points: the mean, how tasks ended, common mistakes."""
    graded = [(result, points_of(result)) for result in results if result.status == GRADED]
    for row, of in {row: of for _, rows in graded for row, (_, of) in rows.items()}.items():
        given = [rows[row][0] for _, rows in graded if rows.get(row, (None,))[0] is not None]
        tasks = [task for result, _ in graded for task in result.tasks if task.number == row]
        says = Counter(mistake.says for task in tasks for mistake in task.mistakes).most_common(5)
        ended = Counter(task.status for task in tasks) or {"marked": len(given)}
        yield {
            "row": tasks[0].title if tasks else row,
            "mean points": sum(given) / len(given) if given else None,
            "of": of,
            "how it ended": ", ".join(f"{count} {status}" for status, count in ended.items()),
            "common mistakes": " ".join(f"{text} ({count})" for text, count in says) or None,
        }
