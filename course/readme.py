"""The students' README: student_readme.md with tasks, settings, and the map of what ships."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from fnmatch import fnmatch
from typing import Any

from course.table import course_tasks
from course.templates import templates_of
from training.files.errors import InputError

TEMPLATE = templates_of(__file__).get_template("student_readme.md")


def ships(name: str, files: Collection[str]) -> bool:
    """Whether a name of the map (a file, a pattern, a folder with its /) is in the handout."""
    if name.endswith("/"):
        return any(file.startswith(name) for file in files)
    return any(fnmatch(file, name) for file in files)


def with_map_of(files: Collection[str], text: str) -> str:
    """A README whose map has only the rows that name files of the handout.

    Raises:
        InputError: a script of the handout is in no row.
    """
    before, heading, rest = text.partition("## The map\n")
    table, heading_after, after = rest.partition("\nMore: ")
    kept, named = [], set()
    for line in table.splitlines():
        names = re.findall(r"`([^`]+)`", line.split("|")[1]) if line.startswith("|") else []
        if all(ships(name, files) for name in names):  # so do the table's first lines
            kept.append(line)
            named |= set(names)
    for file in files:
        if file.endswith(".py") and "/" not in file and file not in named:
            raise InputError(f"the map of {TEMPLATE.name} has no row for {file}")
    return before + heading + "\n".join(kept) + "\n" + heading_after + after


def student_readme(
    files: Collection[str],
    part: str,
    solved: bool,
    language: str | None,
    settings: Mapping[str, Any],
) -> str:
    """The README of a handout; ``part`` is "1", "2" or "all"; ``language`` of a translation."""
    tasks = [
        task
        for task in course_tasks(settings)
        if task.part in {"1": (1,), "2": (2,) if solved else (1, 2), "all": (1, 2)}[part]
    ]
    text = TEMPLATE.render(
        title={"1": ", part 1", "2": ", part 2", "all": ""}[part],
        part=part,
        solved=solved,
        language=language,
        course=settings["course"],
        tasks=tasks,
        dates={name: date for name, date in settings["dates"].items() if date},
        limits=settings["limits"],
        late=settings["late"],
        rules=settings["rules"],
        grading=settings["grading"],
        manual=settings["manual"] if part != "1" else {},
        extra=[row for row in settings["extra"].values() if part in ("all", str(row["part"]))],
        submission=settings["submission"],
    )
    return with_map_of(files, text)
