"""All that a batch writes from its results: feedback, the staff's page, grades, the leaderboard."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from checks.graded_tasks import GRADED_TASKS
from course.grading.batch import NOT_HANDED_IN
from course.grading.judging.predictions import overall
from course.grading.pages.output import body, cell, page, write_csv
from course.grading.types import GRADED, STATUSES, WRONG, Result, Score, TaskResult
from training.files.writing import write_whole

LEADING = {1: "finetune-sst", 2: "overall"}  # by part: the score that makes the order
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


# ---------------------------------------------------------------------------------------------
# The rows of all tables


def scores_of(result: Result) -> dict[str, float]:
    """A result's scores by name and split, such as overall-test; the one that leads comes first."""
    leading = LEADING.get(result.part, "")
    values = {f"{leading}-{split}": overall(result.scores, split) for split in ("test", "dev")}
    values |= {score.key: score.value for score in result.scores}
    return {key: value for key, value in values.items() if value is not None}


def standings(results: Iterable[Result], part: int) -> list[dict[str, Any]]:
    """A row for each group that has a score, the best first; equal scores share a rank."""
    scored = {r.student: scores for r in results if (scores := scores_of(r))}
    keys = [f"{LEADING[part]}-{split}" for split in ("test", "dev")]
    place = {s: [-round(of.get(key, -2), 3) for key in keys] for s, of in scored.items()}
    order = sorted(place.values())
    return [
        {"rank": order.index(place[s]) + 1, "student": s, **scored[s]}
        for s in sorted(scored, key=lambda s: (place[s], s))
    ]


def submission_row(result: Result) -> dict[str, Any]:
    """A line of grades.csv; whom the grader failed has no points."""
    points, scores = {task.number: task.points for task in result.tasks}, scores_of(result)
    return {
        "student": result.student,
        "part": result.part,
        "status": result.status,
        "points": round(result.points, 2) if points else None,
        "of": float(result.of) if points else None,
        "unmarked": ", ".join(result.unmarked) or None,
        "why": result.why.strip().rpartition("\n")[2] or None,
        "sha256": result.sha256,
        **points,
        **{key: value for key, value in scores.items() if key.endswith("-test")},
    }


def task_rows(results: Sequence[Result]) -> Iterator[dict[str, Any]]:
    """A line for each row of points: the mean, how tasks ended, common mistakes."""
    by_number = defaultdict(list)
    for result in results:
        for task in result.tasks if result.status == GRADED else ():
            by_number[task.number].append(task)
    for tasks in by_number.values():
        given = [task.points for task in tasks if task.points is not None]
        says = Counter(mistake.says for task in tasks for mistake in task.mistakes).most_common(5)
        ended = Counter(task.status for task in tasks)
        yield {
            "row": tasks[0].title,
            "mean points": sum(given) / len(given) if given else None,
            "of": tasks[0].of,
            "how it ended": ", ".join(f"{count} {status}" for status, count in ended.items()),
            "common mistakes": " ".join(f"{text} ({count})" for text, count in says) or None,
        }


def to_look_at(results: Sequence[Result], highest: Mapping[str, float]) -> dict[str, list[str]]:
    """Sentences by student; ``highest`` is [look] of settings.toml."""
    owners = defaultdict(set)  # students by the contents of their files of predictions
    for result in results:
        for score in result.scores:
            owners[score.contents].add(result.student)
    found = {r.student: [*sentences(r, owners, highest)] for r in results if r.status == GRADED}
    return {student: texts for student, texts in found.items() if texts}


def sentences(
    result: Result, owners: Mapping[str, set[str]], highest: Mapping[str, float]
) -> Iterator[str]:
    """What is to be looked at in one submission."""
    yield from (note for note in result.notes if note.startswith(NOT_HANDED_IN))
    yield from (f"{task.number} crashed" for task in result.tasks if task.status == "crashed")
    yield from result.named
    files = defaultdict(list)  # by the others whose predictions are the same
    for score in result.scores:
        yield from score.faults
        if score.split == "test" and (score.value or 0) > highest[score.data]:
            yield f"{score.file}: {score.value:.3f} is implausible, were test labels used?"
        if others := owners[score.contents] - {result.student} if score.contents else ():
            files[", ".join(sorted(others))].append(score.file)
    yield from (f"{', '.join(own)}: the same predictions as {who}" for who, own in files.items())
