"""The sheets of a viva: a page to print for each group, one with the keys, and files to import.

Texts come from the process of a group's code: all pass ``clean`` and are escaped here.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from checks.quiz.listing import LETTERS, listing
from course.grading.judging.types import Submission
from course.grading.pages.output import TEMPLATES, clean, page, with_code
from training.files.writing import write_whole

MOST_LINES = 150  # of a function
MOST_CHARACTERS = 160  # of a line of code
LONG = 1600
GIFT_SPECIAL = re.compile(r"([\\\\~=#{}:])")


@dataclass(frozen=True)
class Sheet:
    """The questions of one group."""

    submission: Submission
    questions: Sequence[dict[str, Any]]
    notes: Sequence[str]  # about what was left out

    @property
    def group(self) -> str:
        """Letters and digits of any script, _ and -."""
        return self.submission.student

    def code(self, question: dict[str, Any]) -> str:
        """The function that a question is about, as it was handed in, with line numbers."""
        source = self.submission.files[question["file"]].decode()
        lines = listing(source, question["lines"])
        shown = [f"{n:4}  {clean(line, MOST_CHARACTERS, lines=True)}" for n, line in lines]
        return "\n".join(line.rstrip() for line in shown)

    def by_function(self) -> list[tuple[str, str, list[dict[str, Any]]]]:
        """Title, code and questions of each function, by task."""
        ordered = sorted(self.questions, key=lambda question: question["task"])
        return [
            (f"Task {task}, {(same := [*questions])[0]['file']}", self.code(same[0]), same)
            for task, questions in itertools.groupby(ordered, lambda question: question["task"])
        ]


def write_pages(out: Path, sheet: Sheet, asked: int) -> None:
    """OUT/sheets/GROUP.html and OUT/keys/GROUP.html."""
    fewer = f"{len(sheet.questions)} of {asked} questions. " * (len(sheet.questions) < asked)
    for folder, keys in (("sheets", False), ("keys", True)):
        lead = f"{fewer}{' '.join(sheet.notes) if keys else ''}"
        html = page(
            f"{sheet.group}{' – keys' if keys else ''}",
            lead or ("Exactly one option of each question is true." if not keys else ""),
            template="sheet.html",
            functions=sheet.by_function(),
            letters=LETTERS,
            keys=keys,
        )
        write_whole(out / folder / f"{sheet.group}.html", html)


# ---------------------------------------------------------------------------------------------
# Files to import


def exported(sheet: Sheet) -> list[dict[str, Any]]:
    """A group's questions as HTML: title, text, feedback, and options with whether each is true."""
    return [
        {
            "title": f"{sheet.group} {number} ({question['level']})",
            "text": Markup("<pre>{}</pre><p>{}</p>").format(
                sheet.code(question), with_code(question["text"], LONG)
            ),
            "feedback": with_code(question["why"], LONG),
            # a paragraph, as GIFT takes %50% at the beginning of an option for its weight
            "options": [
                (Markup("<p>{}</p>").format(with_code(option)), index == question["key"])
                for index, option in enumerate(question["options"])
            ],
        }
        for number, question in enumerate(sheet.questions, start=1)
    ]


def escaped(text: str) -> str:
    """A text as GIFT has it: a backslash before special characters and for line breaks."""
    return GIFT_SPECIAL.sub(r"\\\1", text).replace("\n", "\\n")


def gift(sheets: Sequence[Sheet]) -> str:
    """All questions in Moodle's GIFT format, a category for each group."""
    blocks = []
    for sheet in sheets:
        blocks += [f"$CATEGORY: viva/{sheet.group}"] * bool(sheet.questions)
        for question in exported(sheet):
            lines = [f"::{escaped(question['title'])}::[html]{escaped(question['text'])}{{"]
            lines += [f"\t{'=' if true else '~'}{escaped(o)}" for o, true in question["options"]]
            lines += [f"\t####{escaped(question['feedback'])}", "}"]
            blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def moodle(sheets: Sequence[Sheet]) -> str:
    """All questions in Moodle's XML format, a category for each group."""
    groups = [(sheet.group, exported(sheet)) for sheet in sheets if sheet.questions]
    return TEMPLATES.get_template("moodle.xml").render(groups=groups) + "\n"


def write_exports(out: Path, sheets: Sequence[Sheet]) -> None:
    """OUT/questions.gift and OUT/moodle.xml."""
    write_whole(out / "questions.gift", gift(sheets))
    write_whole(out / "moodle.xml", moodle(sheets))
