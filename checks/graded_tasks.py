"""The graded tasks, read from graded_tasks.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

TABLE = Path(__file__).with_suffix(".toml")
# The pages that explain the tasks of a part
PAGES = {1: "docs/handout.md", 2: "docs/part2.md", 3: "docs/modern-bert.md"}


@dataclass(frozen=True)
class GradedTask:
    """One function for the student to write."""

    number: str  # in working order; the part of the course comes first
    id: str
    file: str
    function: str
    paper: str
    points: int
    minutes: int
    check: str
    aspects: str  # that the check looks at
    test: str = ""  # the function of my_tests.py that tests it

    @property
    def title(self) -> str:
        """What stubs and checks call it."""
        return f"Task {self.number} · {self.function}"

    @property
    def part(self) -> int:
        """Of the course, from 1."""
        return int(self.number.split(".")[0])

    @property
    def module(self) -> str:
        """The file as a module's name."""
        return module_of(self.file)

    @property
    def page(self) -> str:
        """Where the task is explained."""
        return PAGES[self.part]


def module_of(file: str) -> str:
    """The name by which a file of this repository is imported."""
    return ".".join(Path(file).with_suffix("").parts)


CONTENT = tomllib.loads(TABLE.read_text(encoding="utf-8"))
GRADED_TASKS = tuple(GradedTask(**entry) for entry in CONTENT["task"])
FIRST_HINT: int = CONTENT["first_hint"]  # the level of hints that students see without asking


def graded_task(key: str) -> GradedTask:
    """The task with that number ('1.2') or id ('bert.add_norm'); KeyError names those here."""
    for entry in GRADED_TASKS:
        if key in (entry.number, entry.id):
            return entry
    root = TABLE.parent.parent
    numbers = [entry.number for entry in GRADED_TASKS if (root / entry.file).is_file()]
    raise KeyError(f"no task {key}; there are {', '.join(numbers)}; --hunt runs your own tests")
