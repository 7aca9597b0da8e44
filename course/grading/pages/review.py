"""What staff should look at before they believe a result; no point depends on it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from course.grading.batch import NOT_HANDED_IN
from course.grading.types import GRADED, Result


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
    yield from result.calls
    for score in result.scores:
        yield from score.faults
        yield from (f"{score.file}: {odd}" for odd in score.odd)
        if score.split == "test" and (score.value or 0) > highest[score.data]:
            yield f"{score.file}: {score.value:.3f} is implausible, were test labels used?"
        others = owners[score.contents] - {result.student} if score.contents else ()
        yield from (f"{score.file}: the same predictions as {other}" for other in sorted(others))
