"""What ships (parts.toml) and what a course may change (settings.toml), read and checked."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

from checks.graded_tasks import GRADED_TASKS, GradedTask
from course.regions import MODES
from training.files.errors import InputError

PARTS, SETTINGS = "course/parts.toml", "course/settings.toml"
TASKS_FILE = "checks/graded_tasks.toml"
TABLES = {  # of settings.toml, and what each must hold; other keys are the course's own
    "course": ("name", "term", "contact", "folder", "committer", "email"),
    "dates": (),
    "points": (),
    "submission": ("file", "name"),
    "limits": (),
    "rules": ("allowed", "forbidden"),
    "late": ("part1", "part2", "days", "cost"),
    "leaderboard": ("attempts", "exceptions", "pseudonyms"),
    "look": ("sst", "cfimdb", "para", "sts"),
    "manual": (),
    "extra": (),
    "grading": ("whole_tasks", "shares"),
    "sandbox": ("packages",),
    "gradescope": ("visibility", "leaderboard"),
}
EXAMPLE = "2027-02-01T23:59+01:00"  # of a point in time
VISIBLE = ("visible", "hidden", "after_due_date", "after_published")  # Gradescope's words


@dataclass(frozen=True)
class Cut:
    """Text of a file that only staff need: from one place up to another."""

    file: str
    start: str
    stop: str  # "": the end of the file
    part: str = ""  # of which handout; "": of all


@dataclass(frozen=True)
class Table:
    """parts.toml."""

    files: Mapping[int, list[str]]  # of each part, patterns
    modes: Mapping[str, str]  # of each region
    file_of: Mapping[str, str]  # of each region
    part_of: Mapping[str, int]  # of each region
    never: list[str]
    common_lines: list[str]
    cuts: list[Cut] = field(default_factory=list)

    def is_staff(self, path: str) -> bool:
        """Whether a path or a folder it lies in is in the list of what never ships."""
        inside = [str(parent) for parent in (PurePosixPath(path), *PurePosixPath(path).parents)]
        return any(name in self.never for name in inside)


def read_toml(root: Path, name: str) -> dict[str, Any]:
    """A TOML file; InputError where it is missing or no TOML."""
    try:
        return tomllib.loads((root / name).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{name} cannot be read: {error}") from error


def read_table(root: Path) -> Table:
    """parts.toml; InputError where something is missing or contradicts TASKS_FILE."""
    parts = read_toml(root, PARTS)
    modes: dict[str, str] = {}
    file_of: dict[str, str] = {}
    part_of: dict[str, int] = {}
    tasks = {task.id: task for task in GRADED_TASKS}
    try:
        for part in (1, 2):
            for file, regions in parts[f"part{part}"]["regions"].items():
                for name, mode in regions.items():
                    if name in modes:
                        raise InputError(f"{PARTS} has {name} twice")
                    modes[name], file_of[name], part_of[name] = mode, file, part
        table = Table(
            {part: parts[f"part{part}"]["files"] for part in (1, 2)},
            modes,
            file_of,
            part_of,
            parts["never"],
            ["".join(line.split()) for line in parts["common_lines"]],
            [
                Cut(cut["file"], cut["from"], cut["until"], cut.get("part", ""))
                for cut in parts["cuts"]
            ],
        )
    except (KeyError, AttributeError) as error:
        raise InputError(f"{PARTS} has no {error}") from error
    for name, mode in modes.items():
        task = tasks.get(name)
        if mode not in MODES:
            raise InputError(f"{PARTS}: {name} = {mode!r} is none of {', '.join(MODES)}")
        if (mode == "task") != (task is not None):
            what = "is" if task else "is not"
            raise InputError(f'{PARTS}: {name} = "{mode}", but it {what} a task of {TASKS_FILE}')
        if task and (task.file, task.part) != (file_of[name], part_of[name]):
            raise InputError(f"{PARTS}: {name} is elsewhere than in {TASKS_FILE}")
    if missing := sorted(tasks.keys() - modes.keys()):
        raise InputError(f"{PARTS} lacks {', '.join(missing)} of {TASKS_FILE}")
    return table


def files_of(root: Path, table: Table, part: int) -> Iterator[tuple[str, Path]]:
    """Name in the handout and place of every file that ships with a part, patterns resolved."""
    patterns = [pattern for number in range(1, part + 1) for pattern in table.files[number]]
    named = {pattern for part_files in table.files.values() for pattern in part_files}
    for pattern in patterns:
        paths = sorted(path for path in root.glob(pattern) if path.is_file())
        if not paths:
            raise InputError(f"{PARTS} lists {pattern}, which is missing")
        for path in paths:
            name = path.relative_to(root).as_posix()
            if "*" in pattern and name in named:
                continue  # another line decides about this one
            if table.is_staff(name):
                raise InputError(f"{PARTS} lists {name}, and also that it never ships")
            yield name, path
    for path in sorted(root.glob("*.py")):
        if path.name not in named and not table.is_staff(path.name):
            raise InputError(f"{path.name} is in no list of {PARTS}: does it ship, or never?")


# ---------------------------------------------------------------------------------------------
# Settings


def read_settings(root: Path) -> dict[str, Any]:
    """settings.toml; InputError names the first key that is missing or has a wrong value."""
    settings = read_toml(root, SETTINGS)
    for name, keys in TABLES.items():
        for key in keys:
            if key not in settings.get(name, {}):
                raise InputError(f"{SETTINGS} has no {name}.{key}")
    if unknown := sorted(settings.keys() - TABLES.keys()):
        raise InputError(f"{SETTINGS} has an unknown table {unknown[0]}")
    for name in TABLES:
        settings.setdefault(name, {})
    for key, value, fits, kind in checks_of(settings):
        if not fits(value):
            verb = "are" if key.startswith("points of") else "is"
            raise InputError(f"{SETTINGS}: {key} {verb} {value!r}, not {kind}")
    return settings


Check = tuple[str, Any, Callable[[Any], bool], str]  # key, value, whether it fits, what would


def checks_of(settings: Mapping[str, Any]) -> Iterator[Check]:
    """What is checked of the values, in this order: later checks rely on earlier ones."""
    numbers = {task.number for task in GRADED_TASKS}
    for number in settings["points"].keys() - numbers:
        raise InputError(f"{SETTINGS} gives points to {number}, which is not a task")
    board, late = settings["leaderboard"], settings["late"]
    yield "leaderboard.exceptions", board["exceptions"], is_table, "a table of names and numbers"
    packages = settings["sandbox"]["packages"]
    are_names = isinstance(packages, list) and all(isinstance(p, str) and p for p in packages)
    yield "sandbox.packages", packages, lambda _: are_names, "a list of names"
    for name, row in settings["extra"].items():
        if not is_table(row) or row.keys() != {"part", "points", "title"}:
            raise InputError(f"{SETTINGS}: extra.{name} does not have part, points and title")
    for name, share in settings["grading"]["shares"].items():
        yield f"grading.shares.{name}", share, lambda n: is_number(n) and n > 0, "a number above 0"
    visibility = settings["gradescope"]["visibility"]
    yield "gradescope.visibility", visibility, VISIBLE.__contains__, f"one of {', '.join(VISIBLE)}"
    for part in ("part1", "part2"):
        fits = late[part] == "" or moment(late[part]) is not None
        yield f"late.{part}", late[part], lambda _, fits=fits: fits, f"a time such as {EXAMPLE}"
    yield "late.cost", late["cost"], lambda n: is_number(n) and n <= 100, "a number from 0 to 100"
    counts = {f"points of {number}": value for number, value in settings["points"].items()}
    counts |= {"leaderboard.attempts": board["attempts"], "late.days": late["days"]}
    counts |= {f"manual.{row}": value for row, value in settings["manual"].items()}
    counts |= {f"leaderboard.exceptions.{name}": n for name, n in board["exceptions"].items()}
    for name, row in settings["extra"].items():
        counts |= {f"extra.{name}.{key}": row[key] for key in ("part", "points")}
    for key, value in counts.items():
        yield key, value, lambda n: type(n) is int and n >= 0, "a whole number"


def is_table(value: Any) -> bool:
    """Whether a value is a TOML table."""
    return isinstance(value, dict)


def is_number(value: Any) -> bool:
    """Whether a value is a number from 0 up; true and false are not."""
    return type(value) in (int, float) and value >= 0


def moment(text: Any) -> datetime | None:
    """A point in time, in this machine's zone where the text has no offset; None: not a time."""
    try:
        when = datetime.fromisoformat(text)
        return when if when.tzinfo else when.astimezone()
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def course_tasks(settings: Mapping[str, Any]) -> list[GradedTask]:
    """The table of tasks with the course's points."""
    points = settings["points"]
    return [replace(task, points=points.get(task.number, task.points)) for task in GRADED_TASKS]


def with_points(text: str, points: Mapping[str, int]) -> str:
    """TASKS_FILE with other points, nothing else changed."""
    for number, value in points.items():
        entry = rf'(^number = "{re.escape(number)}"\n(?:.+\n)*?points = )\d+'
        text = re.sub(entry, rf"\g<1>{value}", text, flags=re.M)
    return text


def text_with_points(text: str, points: Mapping[str, int]) -> str:
    """The assignment's text with other points in the lines under the tasks' headings."""
    for number, value in points.items():
        line = re.compile(rf"(### \w+ {re.escape(number)} · .*\n\n`[^`]*` · )\d+( \w+ ·)")
        text, count = line.subn(rf"\g<1>{value}\g<2>", text)
        if count != 1:
            raise InputError(f"the assignment's text has no line of points under Task {number}")
    return text


def with_submission_name(source: str, file: str) -> str:
    """prepare_submit.py with another name of the zip."""
    lines = source.split("\n")
    places = [i for i, line in enumerate(lines) if line.startswith("ZIP_NAME = ")]
    if len(places) != 1:
        raise InputError("prepare_submit.py has no line ZIP_NAME = …, or several")
    if not file.endswith(".zip") or "/" in file or '"' in file:
        raise InputError(f"{SETTINGS}: submission.file {file!r} is not a name of a zip")
    lines[places[0]] = f'ZIP_NAME = "{file}"'
    return "\n".join(lines)
