"""What staff should look at before they believe a result; no point depends on it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from course.grading.batch import NOT_HANDED_IN
from course.grading.types import GRADED, Result

MOST = 3  # sentences of a kind about one submission


def to_look_at(results: Sequence[Result], highest: Mapping[str, float]) -> dict[str, list[str]]:
    """Sentences by student.

    Args:
        highest: the best score on test that is believed of a data set, [look] of settings.toml.
    """
    owners = defaultdict(list)  # students by the contents of their files of predictions
    for result in results:
        for contents in {score.contents for score in result.scores if score.contents}:
            owners[contents].append(result.student)
    found = {r.student: [*sentences(r, owners, highest)] for r in results if r.status == GRADED}
    return {student: texts for student, texts in found.items() if texts}


def sentences(
    result: Result, owners: Mapping[str, Sequence[str]], highest: Mapping[str, float]
) -> Iterator[str]:
    """What is to be looked at in one submission.

    Args:
        owners: who has handed in the same predictions, by their contents.
    """
    yield from (note for note in result.notes if note.startswith(NOT_HANDED_IN))
    faults = [fault for score in result.scores for fault in score.faults]
    yield from faults[:MOST]
    if len(faults) > MOST:
        yield f"{len(faults) - MOST} more"
    same = defaultdict(list)  # files by who else has handed in the same predictions
    for score in result.scores:
        for owner in owners.get(score.contents, ()):
            if owner != result.student:
                same[owner].append(score.file)
        if score.split == "test" and (score.value or 0) > highest[score.data]:
            yield f"{score.file}: {score.value:.3f} is implausible, were test labels used?"
        yield from (f"{score.file}: {odd}" for odd in score.odd)
    for owner, files in [*same.items()][:MOST]:
        yield f"the same predictions as {owner}: {', '.join(files)}"
    crashed = [task.number for task in result.tasks if task.status == "crashed"]
    if crashed:
        yield f"crashed: {', '.join(crashed)}"
    yield from result.calls[:MOST]
