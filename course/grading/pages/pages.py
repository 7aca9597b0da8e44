"""All that a batch writes from its results: feedback, the staff's page, grades, the leaderboard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from checks.graded_tasks import GRADED_TASKS
from course.grading.pages.output import body, cell, page, write_csv
from course.grading.pages.tables import LEADING, standings, submission_row, task_rows, to_look_at
from course.grading.types import STATUSES, WRONG, Result, Score, TaskResult
from training.files.writing import write_whole

KNOWN = {task.number: task for task in GRADED_TASKS}
SHOWN = ("student", "points", "of", "status", "unmarked", "why")  # of grades.csv, on staff's page
ABOUT = (
    "Accuracy of sst, cfimdb and para, Pearson of sts; overall = (sst + para + (sts + 1) / 2) / 3."
)


def write_all(out: Path, results: Sequence[Result], settings: Mapping[str, Any]) -> None:
    """Write all pages and tables into OUT.

    Args:
        results: of one part, with marks; those included where the grader failed.
        settings: settings.toml, checked.
    """
    for result in results:
        write_whole(out / "feedback" / f"{result.student}.html", feedback(result))
    part, course = results[0].part, settings["course"]["name"]
    if part in LEADING:
        board, lead = standings(results, part), f"Ordered by {LEADING[part]}, on test. {ABOUT}"
        write_csv(out / "leaderboard.csv", board)
        title, tables = f"{course}: leaderboard, part {part}", {"Scores": board}
        html = page("tables.html", title, lead, tables=tables, links=False)
        write_whole(out / "leaderboard.html", html)
    rows = [submission_row(result) for result in results]
    write_csv(out / "grades.csv", rows)
    look = to_look_at(results, settings["look"])
    tables = {
        "Rows of points": [*task_rows(results)],
        "To look at": [{"student": who, "why": "; ".join(texts)} for who, texts in look.items()],
        "Submissions": [{key: row[key] for key in SHOWN} for row in rows],
    }
    lead = f"Not for students. {overview(results)}"
    html = page("tables.html", f"{course}: part {part}", lead, tables=tables, links=True)
    write_whole(out / "staff.html", html)


def feedback(result: Result, whole: bool = True) -> str:
    """The page that one student gets to read, or without ``whole`` its text for another page."""
    lists = {
        "Predictions": [score_line(score) for score in result.scores],
        "What we noticed in your files": result.notes,
    }
    more = {"result": result, "says": STATUSES, "known": KNOWN, "reason": reason, "lists": lists}
    if not whole:
        return body("feedback.html", **more)
    return page("feedback.html", f"{result.student}, part {result.part}", **more)


def score_line(score: Score) -> str:
    """A file of predictions with its score."""
    if score.value is None:
        return "; ".join(score.faults) or f"{score.file} is not scored"
    return f"{score.file}: {score.metric} {cell(score.value)}"


def reason(task: TaskResult) -> str:
    """Why some rows of a task are not counted."""
    first = [row.what for row in task.rows if row.outcome == WRONG][:1]
    return f"{first[0]} wrong" if first else STATUSES[task.status]


def overview(results: Sequence[Result]) -> str:
    """How many submissions there are of each kind."""
    statuses = Counter(result.status for result in results).most_common()
    return f"Submissions: {', '.join(f'{count} {status}' for status, count in statuses)}."
