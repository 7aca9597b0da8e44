"""The sheets of a viva: a page to print for each group, and the same with the keys.

Texts come from the process of a group's code: all pass ``clean`` and are escaped here.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from checks.graded_tasks import GRADED_TASKS
from checks.quiz.listing import LETTERS, listing
from course.grading.pages.output import clean, page
from course.grading.types import Submission
from training.files.writing import write_whole

LONGEST, MOST_LINES, WIDEST = 1600, 150, 160  # characters of a text, lines of code, and of a line


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

    def is_plausible(self, submission: Submission) -> bool:
        """Whether types and sizes are a question's, and it is about a submission's file."""
        lists = [self.options, self.executed, self.lines]
        if not all(isinstance(part, list) and len(part) == 4 for part in lists):
            return False
        texts = [self.level, self.text, self.why, *self.options, *self.executed]
        first, last, *_ = numbers = [*self.lines, self.key]
        return (
            all(isinstance(text, str) and 0 < len(text) <= LONGEST for text in texts)
            and len({*self.options}) == 4
            and any((t.number, t.file) == (self.task, self.file) for t in GRADED_TASKS)
            and self.file in submission.files
            and all(type(number) is int and 0 <= number < 10_000 for number in numbers)
            and 0 < first <= last <= first + MOST_LINES
            and self.key < 4
        )


@dataclass(frozen=True)
class Sheet:
    """The questions of one group."""

    submission: Submission
    questions: Sequence[Question]
    notes: Sequence[str]  # about what was left out

    @property
    def group(self) -> str:
        """Letters and digits of any script, _ and -."""
        return self.submission.student

    def code(self, question: Question) -> list[str]:
        """The function that a question is about, as it was handed in, with line numbers."""
        lines = listing(self.submission.files[question.file].decode(), question.lines)
        return [f"{n:4}  {clean(line, WIDEST, lines=True)}".rstrip() for n, line in lines]

    def by_function(self) -> list[tuple[str, list[str], list[Question]]]:
        """Title, code and questions of each function, by task."""
        ordered = sorted(self.questions, key=lambda question: question.task)
        grouped = [[*q] for _, q in itertools.groupby(ordered, lambda question: question.task)]
        return [(f"Task {q[0].task}, {q[0].file}", self.code(q[0]), q) for q in grouped]


def write_pages(out: Path, sheet: Sheet, asked: int) -> None:
    """OUT/sheets/GROUP.html and OUT/keys/GROUP.html."""
    fewer = f"{len(sheet.questions)} of {asked} questions. " * (len(sheet.questions) < asked)
    for folder, has_keys in (("sheets", False), ("keys", True)):
        title = f"{sheet.group}{' – keys' * has_keys}"
        lead = " ".join(sheet.notes) if has_keys else "Exactly one option of each question is true."
        more = {"functions": sheet.by_function(), "letters": LETTERS, "keys": has_keys}
        html = page("sheet.html", title, f"{fewer}{lead}", **more)
        write_whole(out / folder / f"{sheet.group}.html", html)
