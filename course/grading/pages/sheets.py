"""The sheets of a viva: a page to print for each group, one with the keys, and files to import.

Texts come from the process of a group's code: all pass ``clean`` and are escaped here.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from markupsafe import Markup

from checks.quiz.listing import LETTERS, listing
from course.grading.judging.types import Submission
from course.grading.pages.output import clean, page, with_code, write_text

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
        write_text(out / folder / f"{sheet.group}.html", html)


# ---------------------------------------------------------------------------------------------
# Files to import


def titled(sheets: Sequence[Sheet]) -> Iterator[tuple[Sheet, str, dict[str, Any]]]:
    """Every question with its sheet and a title."""
    for sheet in sheets:
        for number, question in enumerate(sheet.questions, start=1):
            yield sheet, f"{sheet.group} {number} ({question['level']})", question


def html_of(sheet: Sheet, question: dict[str, Any]) -> str:
    """Code and question as HTML."""
    code = Markup("<pre>{}</pre>").format(sheet.code(question))
    return f"{code}<p>{with_code(question['text'], LONG)}</p>"


def escaped(text: str) -> str:
    """A text as GIFT has it: a backslash before special characters and for line breaks."""
    return GIFT_SPECIAL.sub(r"\\\1", text).replace("\n", "\\n")


def gift(sheets: Sequence[Sheet]) -> str:
    """All questions in Moodle's GIFT format, a category for each group."""
    blocks = []
    for group, questions in itertools.groupby(titled(sheets), lambda part: part[0].group):
        blocks.append(f"$CATEGORY: viva/{group}")
        for sheet, title, question in questions:
            lines = [f"::{escaped(title)}::[html]{escaped(html_of(sheet, question))}{{"]
            for number, option in enumerate(question["options"]):
                sign = "=" if number == question["key"] else "~"
                lines.append(f"\t{sign}{escaped(with_code(option))}")
            lines += [f"\t####{escaped(with_code(question['why'], LONG))}", "}"]
            blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def moodle(sheets: Sequence[Sheet]) -> str:
    """All questions in Moodle's XML format, a category for each group."""
    quiz = ElementTree.Element("quiz")
    for group, questions in itertools.groupby(titled(sheets), lambda part: part[0].group):
        category = ElementTree.SubElement(quiz, "question", type="category")
        add_text(category, "category", f"$course$/viva/{group}")
        for sheet, title, question in questions:
            entry = ElementTree.SubElement(quiz, "question", type="multichoice")
            add_text(entry, "name", title)
            add_text(entry, "questiontext", html_of(sheet, question), format="html")
            add_text(entry, "generalfeedback", with_code(question["why"], LONG), format="html")
            for name, value in (
                ("defaultgrade", "1"),
                ("single", "true"),
                ("shuffleanswers", "1"),
                ("answernumbering", "abc"),
            ):
                ElementTree.SubElement(entry, name).text = value
            for number, option in enumerate(question["options"]):
                fraction = "100" if number == question["key"] else "0"
                add_text(entry, "answer", with_code(option), fraction=fraction, format="html")
    ElementTree.indent(quiz)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(quiz, "unicode")}\n'


def add_text(parent: ElementTree.Element, name: str, text: str, **attributes: str) -> None:
    """``<name …><text>…</text></name>``"""
    element = ElementTree.SubElement(parent, name, attributes)
    ElementTree.SubElement(element, "text").text = str(text)


def write_exports(out: Path, sheets: Sequence[Sheet]) -> None:
    """OUT/questions.gift and OUT/moodle.xml."""
    write_text(out / "questions.gift", gift(sheets))
    write_text(out / "moodle.xml", moodle(sheets))
