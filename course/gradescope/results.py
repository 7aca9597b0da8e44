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
from course.grading.intake.intake import student_id
from course.grading.pages import leaderboard
from course.grading.pages.output import clean
from course.grading.pages.reports import SAYS, predicted

NO_VERDICT = (
    "The grader did not come to an end. This is no verdict on your code and costs you nothing: "
    "tell the staff, who run it again."
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
    now, dated = _time(metadata.get("created_at")), []
    previous = metadata.get("previous_submissions")
    for submission in previous if isinstance(previous, list) else []:
        when = _time(submission.get("submission_time")) if isinstance(submission, dict) else None
        results = submission.get("results") if when else None
        kept = results.get("extra_data") if isinstance(results, dict) else None
        if isinstance(kept, dict) and (now is None or when < now):
            dated.append((when, kept))
    return [kept for _, kept in sorted(dated, key=lambda pair: pair[0])]


def _time(text: Any) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (TypeError, ValueError):
        return None


# ---------------------------------------------------------------------------------------------
# The file


def skeleton(part: int, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Zero for every row of points, with a text that this is no verdict."""
    tests = _tests(points.no_points(part, settings), settings)
    return _file(tests) | {"output": NO_VERDICT}


def of_result(
    result: Mapping[str, Any], settings: Mapping[str, Any], metadata: Mapping[str, Any]
) -> dict[str, Any]:
    """The file for a graded submission."""
    visibility = settings["gradescope"]["visibility"]
    tests = _tests(points.points_of(result, settings), settings)
    kept = earlier(metadata)
    attempts = leaderboard.attempts_of(result["student"], settings["leaderboard"])
    scores = leaderboard.scores_of(result)
    scored = any(key.endswith("-test") for key in scores)
    counts = scored and sum(bool(results.get("on test")) for results in kept) < attempts
    if result["predictions"]:
        text = _prediction_text(result["predictions"], counts)
        tests.append(_test("", "Predictions", 0, 0, text, visibility))
    made = _file(tests)
    if result["notes"]:
        made["output"] = "\n".join(clean(note) for note in result["notes"][:50])
    on_test = _rows(scores, result["part"], "test") if counts else _last_rows(kept)
    if settings["gradescope"]["leaderboard"]:
        made["leaderboard"] = on_test + _rows(scores, result["part"], "dev")
    made["extra_data"] = {"on test": counts, "rows": on_test, "layers": result["layers"]}
    return made


def refused(result: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The file where nothing of a submission could be taken."""
    why = f"Nothing could be graded: {clean(result['why'])}"
    tests = _tests(points.no_points(result["part"], settings, why), settings, "failed")
    return _file(tests) | {"output": why}


def _tests(
    sheet: points.PointSheet, settings: Mapping[str, Any], status: str = ""
) -> list[dict[str, Any]]:
    """A test for each row that the grader decides; staff give manual marks at Gradescope."""
    tests = []
    for row in sheet.of_kind("task", "extra"):
        number, text, passed = "", clean(row.note), status
        if row.kind == "task":
            number = row.id
        if row.task:
            text = _task_text(row.task)
            passed = "passed" if row.task["status"] == "right" else "failed"
        visibility = settings["gradescope"]["visibility"]
        tests.append(_test(number, row.title, row.points, row.maximum, text, visibility, passed))
    return tests


def _file(tests: list[dict[str, Any]]) -> dict[str, Any]:
    """What all files have."""
    return {"tests": tests, "output_format": "text", "stdout_visibility": "hidden"}


def _test(
    number: str,
    name: str,
    score: float,
    most: float,
    output: str,
    visibility: str,
    status: str = "",
) -> dict[str, Any]:
    test = {"name": clean(name), "score": score, "max_score": most, "visibility": visibility}
    test |= {"output": output, "output_format": "text", "name_format": "text"}
    return test | ({"number": number} if number else {}) | ({"status": status} if status else {})


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
    view = "public" if split == "test" else "value"
    figures = leaderboard.figures(scores, part, split, view)
    what = "test, public half" if split == "test" else "dev"
    return [
        {"name": f"{leaderboard.COLUMNS[part][key]} ({what})", "value": round(value, 3)}
        for key, value in figures.items()
        if value is not None
    ]


def _last_rows(kept: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Those on test of the last submission that counted: later ones do not take them away."""
    rows = next((results.get("rows") for results in reversed(kept) if results.get("on test")), None)
    return list(rows) if isinstance(rows, list) else []
