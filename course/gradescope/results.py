"""A submission's result in the form of Gradescope's results.json.

Scores, texts and leaderboard rows only; it grades nothing. There is no ``score`` at the top, so
that the tests' scores add up. Every text passes ``clean``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from course.grading import points
from course.grading.intake.names import student_id
from course.grading.pages import leaderboard
from course.grading.pages.output import clean
from course.grading.pages.reports import SAYS, predicted

NOT_GRADED = (
    "The grader did not come to an end. That says nothing about your code and costs you nothing: "
    "tell the staff, who will run it again."
)
LONGEST = 4000  # characters of one test's text


# ---------------------------------------------------------------------------------------------
# Who hands in, and for which time


def student_of(metadata: Mapping[str, Any]) -> str:
    """A name that stays the same for a group, from its members' numbers at Gradescope."""
    users = metadata.get("users")
    users = users if isinstance(users, list) else []
    numbers = sorted(str(user.get("id")) for user in users if isinstance(user, dict))
    return student_id("-".join(numbers) or "nobody")


def earlier(metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What this program kept of a group's submissions before this one, the first one first.

    Later ones are left out, so that a submission graded again counts as it did.
    """
    kept = []
    now = _time(metadata, "created_at")
    previous = metadata.get("previous_submissions")
    for submission in previous if isinstance(previous, list) else []:
        when = _time(submission, "submission_time")
        try:
            data = submission["results"]["extra_data"]
        except (KeyError, TypeError):
            continue
        if when and isinstance(data, dict) and (now is None or when < now):
            kept.append((when, data))
    return [data for _, data in sorted(kept, key=lambda pair: pair[0])]


def _time(table: Any, key: str) -> float | None:
    try:
        return datetime.fromisoformat(table[key]).timestamp()
    except (KeyError, TypeError, ValueError):
        return None


# ---------------------------------------------------------------------------------------------
# The file


def skeleton(part: int, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Zero for every row of points, with a text that says that nothing was graded."""
    sheet = points.no_points(part, settings)
    return _file(_tests(sheet, settings), output=NOT_GRADED)


def refused(result: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The file where nothing of a submission could be taken."""
    why = f"Nothing could be graded: {clean(result['why'])}"
    sheet = points.no_points(result["part"], settings, why)
    return _file(_tests(sheet, settings, status="failed"), output=why)


def of_result(
    result: Mapping[str, Any], settings: Mapping[str, Any], metadata: Mapping[str, Any]
) -> dict[str, Any]:
    """The file for a graded submission."""
    kept = [extra for extra in earlier(metadata) if extra.get("on test")]
    scores = leaderboard.scores_of(result)
    attempts = leaderboard.attempts_of(result["student"], settings["leaderboard"])
    counts = any(key.endswith("-test") for key in scores) and len(kept) < attempts
    if counts:
        on_test = _rows(scores, result["part"], "test")
    else:  # those of the last one that counted: later submissions do not take them away
        on_test = kept[-1].get("rows") if kept else []
        on_test = on_test if isinstance(on_test, list) else []
    tests = _tests(points.points_of(result, settings), settings)
    if result["predictions"]:
        text = _prediction_text(result["predictions"], counts)
        tests.append(_test(settings, "Predictions", 0, 0, text))
    made = _file(tests, extra_data={"on test": counts, "rows": on_test, "layers": result["layers"]})
    if result["notes"]:
        made["output"] = "\n".join(clean(note) for note in result["notes"][:50])
    if settings["gradescope"]["leaderboard"]:
        made["leaderboard"] = on_test + _rows(scores, result["part"], "dev")
    return made


def _tests(
    sheet: points.PointSheet, settings: Mapping[str, Any], **status: str
) -> list[dict[str, Any]]:
    """A test for each row that the grader decides; staff give manual marks at Gradescope."""
    tests = []
    for row in sheet.of_kind("task", "extra"):
        more = dict(status)
        if row.kind == "task":
            more["number"] = row.id
        if row.task:
            more["status"] = "passed" if row.task["status"] == "right" else "failed"
        text = _task_text(row.task) if row.task else clean(row.note)
        tests.append(_test(settings, row.title, row.points, row.maximum, text, **more))
    return tests


def _test(
    settings: Mapping[str, Any], name: str, score: float, most: float, output: str, **more: str
) -> dict[str, Any]:
    return {
        "name": clean(name),
        "score": score,
        "max_score": most,
        "visibility": settings["gradescope"]["visibility"],
        "output": output,
        "output_format": "text",
        "name_format": "text",
        **more,
    }


def _file(tests: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"tests": tests, "output_format": "text", "stdout_visibility": "hidden", **more}


def _task_text(task: Mapping[str, Any]) -> str:
    """What was checked, what it found and what may be the matter."""
    lines = [SAYS[task["status"]].capitalize() + "."] if task["status"] in SAYS else []
    lines += [f"{row['what']}: {row['points']:g} of {row['of']:g}" for row in task["rows"]]
    lines += [clean(message, 1000, lines=True) for message in task["messages"]]
    for name, hint in zip(task["mistakes"], task.get("hints", []), strict=False):
        lines.append(f"Looks like {clean(name, 60)}. {clean(hint, 1000)}")
    return clean("\n".join(lines), LONGEST, lines=True)


def _prediction_text(entries: Sequence[Mapping], counts: bool) -> str:
    """Each file's metric; of test data the public half, and only where the submission counts."""
    lines = []
    for entry in entries:
        shown = predicted(entry, counts)
        metric = f"{shown['metric']} {shown['value']}, 95 % interval " if shown["value"] else ""
        line = f"{Path(entry['file']).name}, {shown['rows']}: {metric}{shown['interval']}"
        lines.append(clean(line, 1000))
    return clean("\n".join(lines), LONGEST, lines=True)


def _rows(scores: leaderboard.Scores, part: int, split: str) -> list[dict[str, Any]]:
    """Leaderboard rows; Gradescope sorts by the first one, the largest value first."""
    view, what = ("public", "test, public half") if split == "test" else ("value", "dev")
    return [
        {"name": f"{leaderboard.COLUMNS[part][key]} ({what})", "value": round(value, 3)}
        for key, value in leaderboard.figures(scores, part, split, view).items()
        if value is not None
    ]
