"""What tests of this folder hand in and hand out."""

from functools import cache

import pytest
from factories import ROOT

from checks.graded_tasks import GRADED_TASKS
from course import handout, regions

GOLD = (ROOT / "course" / "gold", ROOT / "data" / "practice")  # labelled files of the practice set
needs_sandbox = pytest.mark.usefixtures("fit_sandbox")


@cache
def built(part: str) -> handout.Handout:
    """The handout of a part."""
    return handout.build(ROOT, part)


def written(numbers: set[str]) -> dict[str, bytes]:
    """The graded files with these tasks done, and with all that only a solution of them needs."""
    files, unsolved = {}, {task.id for task in GRADED_TASKS if task.number not in numbers}
    for name in sorted({task.file for task in GRADED_TASKS}):
        tasks = {task.id for task in GRADED_TASKS if task.file == name and task.number in numbers}
        pieces = regions.parse((ROOT / name).read_text(encoding="utf-8"))
        for i, piece in enumerate(pieces):
            if tasks and isinstance(piece, regions.Region) and piece.id not in unsolved:
                pieces[i] = "\n".join([*piece.solution, ""])
        files[name] = regions.render(pieces).encode()
    return files
