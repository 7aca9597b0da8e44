"""The rows of all tables: grades, points, the leaderboard, what staff should look at."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from course.grading.batch import NOT_HANDED_IN
from course.grading.judging.predictions import overall
from course.grading.types import GRADED, Result

LEADING = {1: "finetune-sst", 2: "overall"}  # by part: the score that makes the order


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
