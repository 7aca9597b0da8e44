"""The sheets of a viva: a page to print for each group, and the same with the keys.

Texts come from the process of a group's code: all pass ``clean`` and are escaped here.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from checks.quiz.listing import LETTERS, listing
from course.grading.pages.output import clean, page
from course.grading.types import Submission
from training.files.writing import write_whole

MOST_LINES, WIDEST = 150, 160  # of a function, and characters of a line


@dataclass(frozen=True)
class Question:
    """A question as checks/quiz/questions.py makes it, read from JSON: anything may be in it."""

    kind: str
    level: str
    task: str
    file: str
    lines: Sequence[int]
    text: str
    options: Sequence[str]
    executed: Sequence[str]
    key: int
    why: str

    def can_be_shown(self, submission: Submission) -> bool:
        """Whether it has the form of a question about a file of the submission."""
        lists, numbers = (self.options, self.executed, self.lines), [*self.lines, self.key]
        return (
            all(isinstance(part, list) and len(part) == 4 for part in lists)
            and all(type(number) is int and number >= 0 for number in numbers)
            and isinstance(self.task, str)
            and self.file in submission.files
            and self.lines[1] <= self.lines[0] + MOST_LINES
            and self.key < 4
        )


@dataclass(frozen=True)
class Sheet:
    """The questions of one group."""

    submission: Submission
    questions: Sequence[Question]
    notes: Sequence[str]  # about what was left out

    def by_function(self) -> Iterator[tuple[str, list[str], list[Question]]]:
        """Title, code as handed in and questions of each function, by task."""
        ordered = sorted(self.questions, key=lambda question: question.task)
        for task, group in itertools.groupby(ordered, lambda question: question.task):
            first, *others = group
            lines = listing(self.submission.files[first.file].decode(), first.lines)
            code = [f"{n:4}  {clean(line, WIDEST, lines=True)}".rstrip() for n, line in lines]
            yield f"Task {task}, {first.file}", code, [first, *others]


def write_pages(out: Path, sheet: Sheet, asked: int) -> None:
    """OUT/sheets/GROUP.html and OUT/keys/GROUP.html."""
    fewer = f"{len(sheet.questions)} of {asked} questions. " * (len(sheet.questions) < asked)
    more = {"functions": [*sheet.by_function()], "letters": LETTERS}
    student, about = sheet.submission.student, "Exactly one option of each question is true."
    for folder, lead in (("sheets", about), ("keys", " ".join(sheet.notes))):
        html = page(
            "sheet.html", f"{student}, {folder}", fewer + lead, keys=folder == "keys", **more
        )
        write_whole(out / folder / f"{student}.html", html)
