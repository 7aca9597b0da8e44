"""The students' README: the tasks' table, the map and some sections from our README.md."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from fnmatch import fnmatch
from typing import Any

from checks.graded_tasks import GradedTask
from course.table import Table, course_tasks
from training.errors import InputError

COLUMNS = ("task", "function", "points", "minutes", "paper", "check")


def task_table(tasks: Collection[GradedTask]) -> str:
    """The tasks in working order, and what they are worth together."""
    rows = [
        (
            task.number,
            f"`{task.file}` `{task.function}`",
            task.points,
            task.minutes,
            task.paper,
            f"`{task.check}`",
        )
        for task in tasks
    ]
    points, minutes = sum(task.points for task in tasks), sum(task.minutes for task in tasks)
    rows.append(("", "together", points, minutes, "", ""))
    lines = [COLUMNS, ["---"] * len(COLUMNS), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def ships(name: str, files: Collection[str]) -> bool:
    """Whether a name of the map (a file, a pattern, a folder with its /) is in the handout."""
    if name.endswith("/"):
        return any(file.startswith(name) for file in files)
    return any(fnmatch(file, name) for file in files)


def file_map(staff_readme: str, files: Collection[str]) -> str:
    """The rows of README.md's map that name only files of the handout.

    Raises:
        InputError: a script of the handout is in no row.
    """
    kept, named = [], set()
    for line in section(staff_readme, "The map").splitlines():
        names = re.findall(r"`([^`]+)`", line.split("|")[1]) if line.startswith("|") else []
        if names and all(ships(name, files) for name in names):
            kept.append(line)
            named |= set(names)
    for file in files:
        if file.endswith(".py") and "/" not in file and file not in named:
            raise InputError(f"README.md's map has no row for {file}, or one with files of staff")
    return "\n".join(["| file | what |", "|---|---|", *kept]) + "\n"


def section(text: str, heading: str) -> str:
    """The text under a heading of README.md, without it; InputError if it is not there."""
    found = re.search(rf"^## {re.escape(heading)}\n+(.*?)(?=^## |\Z)", text, re.M | re.S)
    if not found:
        raise InputError(f"README.md has no section '{heading}', which the students' README keeps")
    return found[1]


def bullets(items: Collection[str]) -> str:
    """A list."""
    return "".join(f"- {item}\n" for item in items)


def student_readme(
    staff_readme: str,
    files: Collection[str],
    part: str,
    solved: bool,
    table: Table,
    settings: Mapping[str, Any],
) -> str:
    """The README of a handout; ``part`` is "1", "2" or "all"."""
    course, submission = settings["course"], settings["submission"]
    tasks = [
        task
        for task in course_tasks(settings)
        if task.part in {"1": (1,), "2": (2,) if solved else (1, 2), "all": (1, 2)}[part]
    ]
    title = {"1": ", part 1", "2": ", part 2", "all": ""}[part]
    begin = "You write a BERT: the marked functions raise `NotImplementedError` until you do."
    if part == "2" and solved:
        begin = "Part 1 is here, written. You build on it: one BERT for three tasks."
    elif part == "2":
        begin += " Put your files of part 1 in the place of those here, or write them now."
    terms = [f"{key}: {value}" for key, value in settings["dates"].items() if value]
    terms += [f"{key}: {value}" for key, value in settings["limits"].items()]
    number = "1" if part == "1" else "2"
    name = submission["name"]
    command = f"python prepare_submit.py{'' if number == '1' else ' --part 2'} --name {name}"
    check_both = "\nThen part 2: `python sanity_check.py --part 2`." if part != "1" else ""
    kept = "".join(
        f"## {heading}\n\n{section(staff_readme, heading).strip()}\n\n"
        for heading in table.readme_sections
    )
    return (
        f"""# {course["name"]}{title}

{course["term"]}

{begin}
Begin with `docs/handout.md`, which explains every task by its number.

## Set up

```bash
source setup.sh
python sanity_check.py
```

`setup.sh` makes one environment `dnlp`, fetches the course data and the weights, and says what it
fell back to: without the course files everything runs on a practice set, without a hub on a small
offline model. `docs/gpu.md` is about a GPU server.

## The tasks

In working order. The stub holds hints, the docstring the equation and the shapes.

{task_table(tasks)}
`python sanity_check.py` checks all and names the next one; each task is checked alone, so a mistake
in one does not fail another. A task that you have not begun is "not started".{check_both}

## The map

{file_map(staff_readme, files)}
More: `docs/errata.md` (errors of published texts on this assignment), `AGENTS.md` (how an AI
assistant may help), `README.template.md` (for the README that you hand in with part 2).

## Dates and limits

{bullets(terms)}
Questions: {course["contact"]}.

## What is allowed

{bullets(settings["rules"]["allowed"])}
Not allowed:

{bullets(settings["rules"]["forbidden"])}
## Handing in

```bash
{command}
```

checks your code and predictions, lists all faults at once, or writes
`{name}_{submission["file"]}` and prints what the grader will see.

{kept}""".replace("\n\n\n\n", "\n\n").rstrip()
        + "\n"
    )
