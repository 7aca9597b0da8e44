"""The sheets of a viva: a page to print for each group, and the same with the keys."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checks.graded_tasks import graded_task
from checks.hunt.terminal import LETTERS
from checks.quiz.questions import Question
from course.grading.pages.output import clean, page
from course.grading.types import Submission
from training.files.writing import write_whole

WIDEST = 160  # characters of a line


@dataclass(frozen=True)
class Sheet:
    """The questions of one group."""

    submission: Submission
    subjects: Mapping[str, Mapping[str, Any]]  # by task: "code" and what is "given"
    questions: Sequence[Question]  # those about one function in a row
    notes: Sequence[str]  # about what was left out

    def by_function(self) -> Iterator[tuple[str, list[str], str, list[Question]]]:
        """Title, code, what is given and questions of each function."""
        for task, group in itertools.groupby(self.questions, lambda question: question.task):
            subject, entry = self.subjects[task], graded_task(task)
            texts = textwrap.dedent("\n".join(line for _, line in subject["code"])).split("\n")
            numbered = zip((n for n, _ in subject["code"]), texts, strict=False)
            lines = [f"{n:4}  {clean(line, WIDEST, lines=True)}" for n, line in numbered]
            yield f"Task {entry.number}, {entry.file}", lines, subject["given"], list(group)


def write_pages(out: Path, sheet: Sheet, asked: int) -> None:
    """OUT/sheets/GROUP.html and OUT/keys/GROUP.html."""
    fewer = f"{len(sheet.questions)} of {asked} questions. " * (len(sheet.questions) < asked)
    marks, functions = len(sheet.questions), [*sheet.by_function()]
    more = {"functions": functions, "letters": LETTERS, "marks": marks}
    student, about = sheet.submission.student, "Exactly one option of each question is true."
    for folder, lead in (("sheets", about), ("keys", " ".join(sheet.notes))):
        title = f"{student}: viva{', keys' * (folder == 'keys')}"
        html = page("sheet.html", title, fewer + lead, keys=folder == "keys", **more)
        write_whole(out / folder / f"{student}.html", html)
