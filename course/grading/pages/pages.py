"""All that a batch writes from its results: feedback, the staff's page, grades, the leaderboard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from checks.graded_tasks import GRADED_TASKS
from course.grading.pages import leaderboard, review
from course.grading.pages.output import page, write_csv
from course.grading.types import GRADED, STATUSES, WRONG, Result, TaskResult
from training.files.writing import write_whole

KNOWN = {task.number: task for task in GRADED_TASKS}
TASKS = {"row": "Row", "mean": "Mean points", "of": "Of", "ended": "How it ended"}
TASKS |= {"mistakes": "Common mistakes"}
LOOK = {"student": "Group", "look": "Why"}
SUBMISSIONS = {"student": "Group", "points": "Points", "of": "Of", "status": "Status"}
SUBMISSIONS |= {"unmarked": "Not marked yet", "why": "Why"}


def write_all(out: Path, results: Sequence[Result], settings: Mapping[str, Any]) -> None:
    """Write all pages and tables into OUT.

    Args:
        results: of one part, with marks; those included where the grader failed.
        settings: settings.toml, checked.
    """
    for result in results:
        write_whole(out / "feedback" / f"{result.student}.html", feedback(result))
    part, course = results[0].part, settings["course"]
    if part in leaderboard.COLUMNS:
        leaderboard.write(out, results, part, course)
    rows = [submission_row(result) for result in results]
    write_csv(out / "grades.csv", columns_of(results), rows)
    look = review.to_look_at(results, settings["look"])
    why = [
        {**row, "look": "; ".join(look[name])} for row in rows if (name := row["student"]) in look
    ]
    sections = [("Rows of points", TASKS, [*task_rows(results)]), ("To look at", LOOK, why)]
    sections += [("Submissions", SUBMISSIONS, rows)]
    lead = f"Not for students. {overview(results)}"
    html = page("tables.html", f"{course['name']}: part {part}", lead, sections=sections)
    write_whole(out / "staff.html", html)


def feedback(result: Result) -> str:
    """The page that one student gets to read."""
    more = {"result": result, "says": STATUSES, "known": KNOWN, "reason": reason}
    return page("feedback.html", f"{result.student}, part {result.part}", **more)


def reason(task: TaskResult) -> str:
    """Why some rows of a task are not counted."""
    first = [row.what for row in task.rows if row.outcome == WRONG][:1]
    return f"{first[0]} wrong" if task.status == "wrong" and first else STATUSES[task.status]


def overview(results: Sequence[Result]) -> str:
    """How many submissions there are of each kind, and their mean points."""
    statuses = Counter(result.status for result in results).most_common()
    fractions = [r.points / r.of for r in results if r.status == GRADED and r.of]
    mean = f" Mean of the graded ones: {sum(fractions) / len(fractions):.0%}." if fractions else ""
    return f"Submissions: {', '.join(f'{count} {status}' for status, count in statuses)}.{mean}"


def points_of(result: Result) -> dict[str, tuple[float | None, float]]:
    """A result's points by row, and the most that the row can have: tasks by number, then marks."""
    tasks = {task.number: (task.points, task.of) for task in result.tasks}
    return tasks | {mark.row: (mark.points, mark.of) for mark in result.marks}


def submission_row(result: Result) -> dict[str, Any]:
    """A line of grades.csv and of the staff's page; whom the grader failed has no points."""
    points, scores = points_of(result), leaderboard.scores_of(result)
    return {
        **{row: given for row, (given, _) in points.items()},
        **scores,
        "student": result.student,
        "part": result.part,
        "status": result.status,
        "points": round(result.points, 2) if points else None,
        "of": float(result.of) if points else None,
        "unmarked": ", ".join(result.unmarked) or None,
        "why": result.why.strip().rpartition("\n")[2] or None,
        "sha256": result.sha256,
    }


def columns_of(results: Sequence[Result]) -> list[str]:
    """The columns of grades.csv."""
    rows = dict.fromkeys(row for result in results for row in points_of(result))
    scores = dict.fromkeys(key for result in results for key in leaderboard.scores_of(result))
    tests = [key for key in scores if key.endswith("-test")]
    return ["student", "part", "status", "points", "of", "unmarked", *rows, *tests, "why", "sha256"]


def task_rows(results: Sequence[Result]) -> Iterator[dict[str, Any]]:
    """A line for each row of points: the mean, how tasks ended, common mistakes."""
    graded = [result for result in results if result.status == GRADED]
    for row in dict.fromkeys(row for result in graded for row in points_of(result)):
        given = [points_of(result).get(row, (None, None)) for result in graded]
        marked = [points for points, _ in given if points is not None]
        tasks = [task for result in graded for task in result.tasks if task.number == row]
        ended = Counter(task.status for task in tasks) or {"marked": len(marked)}
        says = Counter(mistake.says for task in tasks for mistake in task.mistakes).most_common(5)
        yield {
            "row": tasks[0].title if tasks else row,
            "mean": sum(marked) / len(marked) if marked else None,
            "of": max(of for _, of in given if of is not None),
            "ended": ", ".join(f"{count} {status}" for status, count in ended.items()),
            "mistakes": " ".join(f"{text} ({count})" for text, count in says) or None,
        }
